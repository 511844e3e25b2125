// SPDX-License-Identifier: MIT
#include "malloc/find.h"
#include "malloc/heaps.h"

#include <string.h>

bool as_heaps_split(const struct as_heaps *h, uint32_t arena, size_t first, size_t count, struct as_heaps *out,
                    struct as_error *err)
{
    *out = *h;
    memset(&out->heaps, 0, sizeof out->heaps);
    memset(&out->spans, 0, sizeof out->spans);
    memset(&out->faults, 0, sizeof out->faults);
    memset(&out->tcache_candidates, 0, sizeof out->tcache_candidates);
    out->zero_candidates = out->zero_candidate_bytes = out->zero_candidates_likely = 0;
    out->candidates_missed = false;
    size_t spans =
        h->arenas.items[arena].main ? h->spans.count : 0; // only the walk of a main arena finds further heaps
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
    bool ok = join_heaps(h, part, first, count, err) &&
              as_vec_reserve(&h->tcache_candidates, part->tcache_candidates.count, err);
    for (size_t i = 0; ok && i < part->tcache_candidates.count; i++)
        h->tcache_candidates.items[h->tcache_candidates.count++] = part->tcache_candidates.items[i];
    h->candidates_missed |= part->candidates_missed;
    h->zero_candidates += part->zero_candidates;
    h->zero_candidate_bytes += part->zero_candidate_bytes;
    h->zero_candidates_likely += part->zero_candidates_likely;
    AS_FOR_EACH_WHILE(ok, const struct as_fault, f, &part->faults)
        as_fault_note(h, f->arena, f->heap == UINT32_MAX ? f->heap : f->heap + (uint32_t)first, f->address, f->what);
    AS_FREE_VECS(part, heaps, spans, faults, tcache_candidates);
    return ok;
}
