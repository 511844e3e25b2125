// SPDX-License-Identifier: MIT
#include "recorder/ruby/ruby.h"

struct as_cruby as_cruby;
