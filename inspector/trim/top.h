// SPDX-License-Identifier: MIT
// The top. Internal to trim/.
#pragma once

#include "trim/pass.h"

// Gives back what is whole of the top: what malloc_trim would, and in a deep trim the rest, too.
enum as_trim_progress as_trim_top(struct as_trim_pass *p);
