// SPDX-License-Identifier: MIT
#include "malloc/heaps.h"

void as_heaps_free(struct as_heaps *h)
{
    AS_FREE_VECS(h, pars, arenas, heaps, spans, mmapped, cached, threads, other_tcaches, lost_tcaches,
                 tcache_candidates, tcaches_known, faults);
}
