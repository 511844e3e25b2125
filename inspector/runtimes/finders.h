// SPDX-License-Identifier: MIT
// All finders there are (finder.h).
#pragma once

#include "runtimes/finder.h"

// Calls those of as_finder.before_malloc, before malloc's heaps are found. False (AS_NO_MEMORY): our memory ran out.
bool as_finders_call_first(const struct as_finder_input *in);
// Calls the others, once malloc's heaps are in the store. If it is known which malloc answers, and it was not located, adds a record of it
// with state AS_REGIONS_UNPROVEN. False: likewise.
bool as_finders_call(const struct as_finder_input *in);
