// SPDX-License-Identifier: MIT
// Puts the finders in order, and keeps what they find wrong.
#include "heap/heap.h"

enum {
    MAX_FAULTS = 1000,       // a wrecked heap has millions: the first ones tell the story, the count is in `torn`
    SYNC_PLACES = 1 << 27,   // seconds, at most; what is torn after that stays unknown to the end of its heap
    SEARCH_CHUNKS = 1 << 28, // seconds, at most; a main arena without brk of 16 GB has fewer chunks
};

bool as_heaps_fault(struct as_heaps *h, uint32_t arena, uint32_t heap, uint64_t address, const char *what)
{
    if (h->faults.count >= MAX_FAULTS)
        return true;
    struct as_error err;
    struct as_fault *fault = as_vec_add(&h->faults, &err);
    if (fault)
        *fault = (struct as_fault){.address = address, .arena = arena, .heap = heap, .what = what};
    return true;
}

bool as_heaps_find(struct as_target *t, const struct as_malloc *m, struct as_heaps *out, struct as_error *err)
{
    *out = (struct as_heaps){.target = t, .malloc = m, .sync_left = SYNC_PLACES, .search_left = SEARCH_CHUNKS};
    for (uint32_t i = 0; i < m->libcs.count; i++)
        if (!as_arenas_read(out, i, err))
            return false;
    for (uint32_t i = 0; i < out->arenas.count; i++)
        if (!as_segments_find(out, i, err))
            return false;
    return as_threads_find(out, err) && as_caches_find(out, err) && as_mmapped_find(out, err);
}

void as_heaps_free(struct as_heaps *h)
{
    as_vec_free(&h->pars);
    as_vec_free(&h->arenas);
    as_vec_free(&h->heaps);
    as_vec_free(&h->spans);
    as_vec_free(&h->mmapped);
    as_vec_free(&h->cached);
    as_vec_free(&h->threads);
    as_vec_free(&h->faults);
}
