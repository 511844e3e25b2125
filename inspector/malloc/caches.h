// SPDX-License-Identifier: MIT
// The members of every tcache bin: chunks that the application has freed and that malloc keeps
// for its threads. Such chunks seem used by the flags of their neighbours; only the lists tell.
#pragma once

#include "malloc/heaps.h"

// After as_threads_find and as_mmapped_find: fills in h->cached, ascending, and what each thread's tcache holds. AS_NO_MEMORY.
bool as_caches_find(struct as_heaps *h, struct as_error *err);

// After the walk: whether all that the caches hold lies in a heap or a mapping of malloc's. A fault for each chunk that does
// not.
void as_caches_check(struct as_heaps *h);
