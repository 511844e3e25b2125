// SPDX-License-Identifier: MIT
// The walk: from chunk to chunk by their sizes, telling apart what is in use, cached, binned, top and bookkeeping.
#pragma once

#include "malloc/fastbins.h"
#include "malloc/heaps.h"

// Walks one heap from `start` to `end`: every byte of it goes to `sink` as part of exactly one chunk. Where the chain of
// sizes breaks, the bytes up to the next place where it holds again are AS_CHUNK_UNKNOWN, a fault is noted, and *torn
// counts it. Members of fastbins are handed on as in use, and kept in `candidates` (which may be NULL).
bool as_walk_heap(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_chunk_sink *sink,
                  struct as_fastbin_candidates *candidates, uint64_t *torn);

// After the walk of all of an arena's heaps: whether its bins hold what the walk found free, no more and no less. A fault where
// they do not.
void as_bins_check(struct as_heaps *h, uint32_t arena);
