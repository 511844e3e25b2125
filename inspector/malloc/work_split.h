// SPDX-License-Identifier: MIT
// One arena's part of all that was found, for a worker of its own, and what the worker made of it put back.
#pragma once

#include "malloc/heaps.h"

// One arena's part of `h` for a worker of its own: out->heaps are the `count` of them from index `first` on, its spans (where
// the walk may change them), faults and budgets are its own; all else is h's, which the worker may read, and its arena. Not to
// be freed but by as_heaps_join. AS_NO_MEMORY.
bool as_heaps_split(const struct as_heaps *h, uint32_t arena, size_t first, size_t count, struct as_heaps *out,
                    struct as_error *err);
// Puts what the walk made of such a part back in place of the `count` heaps from index `first` on, and frees it. The parts of
// arenas are joined in their order, so that index is also where the arena's heaps begin in the store. AS_NO_MEMORY.
bool as_heaps_join(struct as_heaps *h, struct as_heaps *part, size_t first, size_t count, struct as_error *err);
