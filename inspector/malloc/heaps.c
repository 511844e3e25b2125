// SPDX-License-Identifier: MIT
#include "malloc/heaps.h"

void as_heaps_free(struct as_heaps *h)
{
    as_vec_free(&h->pars);
    as_vec_free(&h->arenas);
    as_vec_free(&h->heaps);
    as_vec_free(&h->spans);
    as_vec_free(&h->mmapped);
    as_vec_free(&h->cached);
    as_vec_free(&h->threads);
    as_vec_free(&h->other_tcaches);
    as_vec_free(&h->lost_tcaches);
    as_vec_free(&h->tcache_candidates);
    as_vec_free(&h->tcaches_known);
    as_vec_free(&h->faults);
}
