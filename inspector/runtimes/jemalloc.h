// SPDX-License-Identifier: MIT
// jemalloc's memory in a target, found from outside by structure, with no symbols (jemalloc.c).
#pragma once

#include "runtimes/finder.h"

// Finds a jemalloc (5.x, on 48-bit addresses and pages of 4 KiB): all extents, in use or not, and jemalloc's own blocks.
bool as_jemalloc_find(const struct as_finder_input *in);
