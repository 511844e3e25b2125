// SPDX-License-Identifier: MIT
#include "base/align.h"
#include "malloc/find.h"
#include "malloc/heaps.h"
#include "malloc/segments.h"

#include <string.h>

// The mappings were read with the arena's first reading: since then brk's memory has grown with the top.
static void extend_brk_mapping(struct as_heaps *h, const struct as_arena *arena)
{
    struct as_target *t = h->target;
    uint64_t base = h->pars.items[arena->libc_index].sbrk_base;
    uint64_t end = arena->top + arena->top_size;
    size_t i = base == AS_UNKNOWN ? t->mappings.count : as_target_mapping_from(t, base);
    if (i == t->mappings.count || t->mappings.items[i].start > base || end < base ||
        end - base != arena->system_mem) // only malloc has moved brk, and the arena has one segment
        return;
    struct as_mapping *m = &t->mappings.items[i];
    uint64_t limit = i + 1 < t->mappings.count ? m[1].start : UINT64_MAX;
    end = as_align_up(end, t->page_size);
    if (m->end < end && end <= limit)
        m->end = end;
}

// Makes the spans agree with a new heap.
static bool set_span(struct as_heaps *h, const struct as_heap *heap, struct as_error *err)
{
    for (size_t i = 0; i < h->spans.count; i++) {
        struct as_span *span = &h->spans.items[i];
        if (span->start != heap->start)
            continue;
        uint64_t limit = i + 1 < h->spans.count ? span[1].start : UINT64_MAX;
        span->end = heap->end < limit ? heap->end : limit;
        return true;
    }
    return !as_span_is_clear(&h->spans, heap->start, heap->end) || as_span_add(&h->spans, heap->start, heap->end, err);
}

static bool replace_heaps(struct as_heaps *h, uint32_t arena, uint32_t first, const struct as_heaps *now,
                          struct as_error *err)
{
    size_t last = first;
    while (last < h->heaps.count && h->heaps.items[last].arena == arena)
        last++;
    size_t count = now->heaps.count;
    if (!as_vec_reserve(&h->heaps, count, err))
        return false;
    memmove(h->heaps.items + first + count, h->heaps.items + last, (h->heaps.count - last) * sizeof *h->heaps.items);
    h->heaps.count = h->heaps.count - (last - first) + count;
    for (size_t i = 0; i < count; i++) {
        h->heaps.items[first + i] = now->heaps.items[i];
        h->heaps.items[first + i].arena = arena;
        if (!set_span(h, &now->heaps.items[i], err))
            return false;
    }
    return true;
}

// Faults that were noted without the arena's lock give way to those that are there under the lock.
static void replace_faults(struct as_heaps *h, uint32_t arena, const struct as_heaps *now, uint32_t arena_now)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->faults.count; i++)
        if (h->faults.items[i].arena != arena)
            h->faults.items[kept++] = h->faults.items[i];
    h->faults.count = kept;
    AS_FOR_EACH(const struct as_fault, f, &now->faults)
        if (f->arena == arena_now)
            as_fault_note(h, arena, f->heap, f->address, f->what);
}

bool as_heaps_refresh(struct as_heaps *h, uint32_t arena, uint32_t first, bool *done, struct as_error *err)
{
    *done = false;
    struct as_arena *old = &h->arenas.items[arena];
    struct as_heaps now = {.target = h->target, .malloc = h->malloc, .search_budget = h->search_budget};
    bool ok = true;
    for (uint32_t i = 0; ok && i < h->malloc->libcs.count; i++) // mp_ of every libc, in its place
        ok = as_arenas_read(&now, i, err);
    for (uint32_t i = 0; ok && i < now.arenas.count; i++) {
        if (now.arenas.items[i].address != old->address)
            continue;
        now.incomplete =
            now.arenas.items[i].top == 0 && now.arenas.items[i].system_mem != 0; // of this one, not of others
        if (now.arenas.items[i].main)
            extend_brk_mapping(&now, &now.arenas.items[i]);
        ok = as_segments_find(&now, i, err) && as_main_segments_find(&now, i, err);
        if (ok && !now.incomplete) {
            *old = now.arenas.items[i];
            replace_faults(h, arena, &now, i);
            *done = ok = replace_heaps(h, arena, first, &now, err);
        }
        h->search_budget = now.search_budget;
        break;
    }
    as_heaps_free(&now);
    return ok;
}
