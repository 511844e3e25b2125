// SPDX-License-Identifier: MIT
// Tcaches that no thread has. After a fork the parent's other threads are gone in the child, and with them whoever could
// empty their tcaches; and a thread that ends empties the tcache of its own libc, but not one that it has in another
// (dlmopen). The struct itself still says so, as a chunk in use whose counts and lists agree. The walk passes all of them.
#pragma once

#include "malloc/heaps.h"

// After a walk: adds those of h->tcache_candidates to h->lost_tcaches that are tcaches, which is certain only where the
// target stood still. *found: there is one that was not there yet; what was counted of its chunks as in use is wrong, and all
// is to be found and walked again. AS_NO_MEMORY, also where memory ran out in the walk.
bool as_lost_tcaches_find(struct as_heaps *h, bool *found, struct as_error *err);

// Notes a chunk in use if it resembles a tcache_perthread_struct: `bytes` are layout.tcache_size of them.
void as_lost_candidate_add(struct as_heaps *h, const struct as_arena *arena, uint64_t chunk, uint64_t size,
                           const uint8_t *bytes);
