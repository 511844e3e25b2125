// SPDX-License-Identifier: MIT
// Mmapped chunks. No list holds them and neighbouring maps merge into one mapping, so they are found by stepping from map
// to map: a map begins with a chunk header (at its very start, or behind the lead that aligned_alloc left) whose
// sizes say where the map ends. mp_.n_mmaps and mp_.mmapped_mem tell when all have been found.
#pragma once

#include "malloc/heaps.h"

// The mmapped chunks of every libc, by stepping through the anonymous mappings that nothing else claims. What does not agree
// with mp_ is a fault. AS_NO_MEMORY.
bool as_mmapped_find(struct as_heaps *h, struct as_error *err);

// Says of each mmapped chunk what the caches know of it, after both have been found.
void as_mmapped_classify(struct as_heaps *h);
