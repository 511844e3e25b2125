// SPDX-License-Identifier: MIT
// The finders in their order: each relies on what those before it have found.
#pragma once

#include "malloc/heaps.h"

// Finds arenas, heaps, threads, mmapped chunks and caches: all that has to be known before the chunks are walked. False only
// when our memory ran out (AS_NO_MEMORY); what the target has wrong is in `faults`. `out` is to be freed in either case.
// `foreign`: see as_heaps; NULL: none is known.
bool as_heaps_find(struct as_target *t, const struct as_malloc *m, const as_span_vec *foreign, struct as_heaps *out,
                   struct as_error *err);

// Finds all anew, and takes what is in h->lost_tcaches for caches. As as_heaps_find.
bool as_heaps_find_again(struct as_heaps *h, struct as_error *err);
