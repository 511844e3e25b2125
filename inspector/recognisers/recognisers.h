// SPDX-License-Identifier: MIT
// All recognisers there are.
#pragma once

#include "graph/recogniser.h"

// In the order in which they are asked: a shape that one gives may be replaced by a later one.
extern const struct as_recogniser as_recognisers[];
