// SPDX-License-Identifier: MIT
#include "malloc/find.h"
#include "malloc/segments.h"

#include <string.h>

enum {
    SYNC_PLACES = 1 << 27,   // seconds, at most; what is torn after that stays unknown to the end of its heap
    SEARCH_CHUNKS = 1 << 28, // seconds, at most; a main arena without brk of 16 GB has fewer chunks
};

static bool find_heaps(struct as_heaps *out, struct as_error *err)
{
    const struct as_malloc *m = out->malloc;
    for (uint32_t i = 0; i < m->libcs.count; i++)
        if (!as_arenas_read(out, i, err))
            return false;
    for (uint32_t i = 0; i < out->arenas.count; i++)
        if (!as_segments_find(out, i, err))
            return false;
    if (!as_main_segments_find(out, UINT32_MAX, err))
        return false;
    if (!as_threads_find(out, err) || !as_mmapped_find(out, err) || !as_caches_find(out, err))
        return false;
    as_mmapped_classify(out);
    return true;
}

static struct as_heaps nothing(struct as_target *t, const struct as_malloc *m, const as_span_vec *foreign)
{
    return (struct as_heaps){
        .target = t, .malloc = m, .foreign = foreign, .resync_budget = SYNC_PLACES, .search_budget = SEARCH_CHUNKS};
}

bool as_heaps_find(struct as_target *t, const struct as_malloc *m, const as_span_vec *foreign, struct as_heaps *out,
                   struct as_error *err)
{
    *out = nothing(t, m, foreign);
    return find_heaps(out, err);
}

bool as_heaps_find_again(struct as_heaps *h, struct as_error *err)
{
    struct as_heaps again = nothing(h->target, h->malloc, h->foreign);
    memcpy(&again.lost_tcaches, &h->lost_tcaches, sizeof again.lost_tcaches);
    memset(&h->lost_tcaches, 0, sizeof h->lost_tcaches);
    as_heaps_free(h);
    *h = again;
    return find_heaps(h, err);
}
