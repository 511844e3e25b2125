// SPDX-License-Identifier: MIT
// An arena anew: between the time when the arenas were listed and the one when an arena's lock was got, threads went on, and
// its heaps grew, came and went.
#pragma once

#include "malloc/heaps.h"

// Reads one arena and its heaps anew, now that its lock is held, and puts them in the place of those that as_heaps_find saw a
// while ago, from heaps.items[first] on. *done: false where that cannot be read, and is left as it was. False: AS_NO_MEMORY.
bool as_heaps_refresh(struct as_heaps *h, uint32_t arena, uint32_t first, bool *done, struct as_error *err);
