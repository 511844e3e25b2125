// SPDX-License-Identifier: MIT
#pragma once

#include "heap/heap.h"

// Reads one arena and its heaps anew, now that its lock is held, and puts them in the place of those that as_heaps_find saw a
// moment ago, from heaps.items[first] on. AS_NO_MEMORY; an arena that cannot be read any more is left as it was.
bool as_heaps_refresh(struct as_heaps *h, uint32_t arena, uint32_t first, struct as_error *err);
