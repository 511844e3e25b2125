// SPDX-License-Identifier: MIT
// The memory of mimalloc in a target, found from outside by structure, with no symbols (mimalloc.c). Internal to runtimes/.
#pragma once

#include "runtimes/finder.h"

// Finds mimalloc's segments.
bool as_mimalloc_find(const struct as_finder_input *in);

// Finds the pages of mimalloc 3, which has nothing in common with 2.
bool as_mimalloc3_find(const struct as_finder_input *in);
