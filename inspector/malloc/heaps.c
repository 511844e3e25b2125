// SPDX-License-Identifier: MIT
// Puts the finders in order.
#include "malloc/heaps.h"
#include "malloc/faults.h"

#include <string.h>

enum {
    SYNC_PLACES = 1 << 27,   // seconds, at most; what is torn after that stays unknown to the end of its heap
    SEARCH_CHUNKS = 1 << 28, // seconds, at most; a main arena without brk of 16 GB has fewer chunks
};

static bool find(struct as_heaps *out, struct as_error *err)
{
    const struct as_malloc *m = out->malloc;
    for (uint32_t i = 0; i < m->libcs.count; i++)
        if (!as_arenas_read(out, i, err))
            return false;
    for (uint32_t i = 0; i < out->arenas.count; i++)
        if (!as_segments_find(out, i, err))
            return false;
    if (!as_segments_complete(out, UINT32_MAX, err))
        return false;
    if (!as_threads_find(out, err) || !as_mmapped_find(out, err) || !as_caches_find(out, err))
        return false;
    as_mmapped_classify(out);
    return true;
}

static struct as_heaps nothing(struct as_target *t, const struct as_malloc *m)
{
    return (struct as_heaps){.target = t, .malloc = m, .sync_left = SYNC_PLACES, .search_left = SEARCH_CHUNKS};
}

bool as_heaps_find(struct as_target *t, const struct as_malloc *m, struct as_heaps *out, struct as_error *err)
{
    *out = nothing(t, m);
    return find(out, err);
}

bool as_heaps_find_again(struct as_heaps *h, struct as_error *err)
{
    struct as_heaps again = nothing(h->target, h->malloc);
    memcpy(&again.lost, &h->lost, sizeof again.lost);
    memset(&h->lost, 0, sizeof h->lost);
    as_heaps_free(h);
    *h = again;
    return find(h, err);
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
    as_vec_free(&h->others);
    as_vec_free(&h->lost);
    as_vec_free(&h->strays);
    as_vec_free(&h->reached);
    as_vec_free(&h->faults);
}

bool as_heaps_part(const struct as_heaps *h, uint32_t arena, size_t first, size_t count, struct as_heaps *out,
                   struct as_error *err)
{
    *out = *h;
    memset(&out->heaps, 0, sizeof out->heaps);
    memset(&out->spans, 0, sizeof out->spans);
    memset(&out->faults, 0, sizeof out->faults);
    memset(&out->strays, 0, sizeof out->strays);
    out->blanks = out->blank_bytes = out->blank_heads = 0;
    out->strays_missed = false;
    size_t spans =
        h->arenas.items[arena].main ? h->spans.count : 0; // only a main arena goes on where its walk finds it
    if (!as_vec_reserve(&out->heaps, count, err) || !as_vec_reserve(&out->spans, spans, err))
        return false;
    out->heaps.count = count;
    out->spans.count = spans;
    if (count > 0)
        memcpy(out->heaps.items, h->heaps.items + first, count * sizeof *out->heaps.items);
    if (spans > 0)
        memcpy(out->spans.items, h->spans.items, spans * sizeof *out->spans.items);
    return true;
}

static bool join_heaps(struct as_heaps *h, const struct as_heaps *part, size_t first, size_t count,
                       struct as_error *err)
{
    size_t more = part->heaps.count - count; // a walk finds heaps, and loses none
    if (part->heaps.count == 0)
        return true;
    if (!as_vec_reserve(&h->heaps, more, err))
        return false;
    struct as_heap *at = h->heaps.items + first;
    memmove(at + part->heaps.count, at + count, (h->heaps.count - first - count) * sizeof *at);
    memcpy(at, part->heaps.items, part->heaps.count * sizeof *at);
    h->heaps.count += more;
    for (size_t i = 0; part->spans.count > 0 && i < part->heaps.count; i++) {
        const struct as_span *span = as_heaps_at(h, at[i].start);
        if (span)
            as_span_cut(&h->spans, at[i].start, at[i].end);
        else if (!as_span_add(&h->spans, at[i].start, at[i].end, err))
            return false;
    }
    return true;
}

bool as_heaps_join(struct as_heaps *h, struct as_heaps *part, size_t first, size_t count, struct as_error *err)
{
    bool ok = join_heaps(h, part, first, count, err) && as_vec_reserve(&h->strays, part->strays.count, err);
    for (size_t i = 0; ok && i < part->strays.count; i++)
        h->strays.items[h->strays.count++] = part->strays.items[i];
    h->strays_missed |= part->strays_missed;
    h->blanks += part->blanks;
    h->blank_bytes += part->blank_bytes;
    h->blank_heads += part->blank_heads;
    for (size_t i = 0; ok && i < part->faults.count; i++) {
        const struct as_fault *f = &part->faults.items[i];
        as_fault_note(h, f->arena, f->heap == UINT32_MAX ? f->heap : f->heap + (uint32_t)first, f->address, f->what);
    }
    as_vec_free(&part->heaps);
    as_vec_free(&part->spans);
    as_vec_free(&part->faults);
    as_vec_free(&part->strays);
    return ok;
}
