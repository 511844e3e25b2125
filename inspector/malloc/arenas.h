// SPDX-License-Identifier: MIT
// malloc_state and malloc_par: the circular list of arenas, and the tunables in force.
#pragma once

#include "malloc/heaps.h"

// Reads mp_ and arena after arena of one libc into h->pars and h->arenas. What cannot be read is a fault. AS_NO_MEMORY.
bool as_arenas_read(struct as_heaps *h, uint32_t libc_index, struct as_error *err);

// An arena that was never used has its own bin as its top (initial_top), whose "size" is no size.
static inline bool as_is_initial_top(const struct as_libc *libc, uint64_t arena, uint64_t top)
{
    return top - arena < (uint64_t)libc->layout.state.size;
}

// True when an arena's lock is held right now. From outside this is only half the truth: a
// single-threaded process does not lock.
bool as_arenas_locked(struct as_target *t, const struct as_malloc *m);
