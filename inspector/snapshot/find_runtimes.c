// SPDX-License-Identifier: MIT
#include "snapshot/steps.h"

#include "base/sort.h"
#include "profile/read.h"
#include "runtimes/finders.h"
#include "runtimes/heap_objects.h"
#include "runtimes/regions.h"

bool as_runtimes_find_first(struct as_target *t, const struct as_malloc *m, bool pages, struct as_variable_words *words,
                            struct as_store *s, as_span_vec *foreign, struct as_error *err)
{
    const struct as_finder_input in = {
        .target = t, .store = s, .err = err, .malloc = m, .words = words, .pages = pages};
    size_t first = s->regions.count;
    if (!as_finders_call_first(&in) || !as_vec_reserve(foreign, s->regions.count - first, err))
        return false;
    for (size_t i = first; i < s->regions.count && foreign->items; i++) {
        const struct as_region_record *region = &s->regions.items[i];
        struct as_span *last = foreign->count > 0 ? &foreign->items[foreign->count - 1] : NULL;
        if (last && last->end == region->address)
            last->end += region->size;
        else
            foreign->items[foreign->count++] = (struct as_span){region->address, region->address + region->size};
    }
    return true;
}

bool as_runtimes_find(struct as_target *t, const struct as_malloc *m, const struct as_hotspot *hotspot, bool pages,
                      struct as_variable_words *words, struct as_store *s, struct as_error *err)
{
    const struct as_finder_input in = {
        .target = t, .store = s, .err = err, .malloc = m, .words = words, .hotspot = hotspot, .pages = pages};
    return as_finders_call(&in) && as_profile_find_regions(t, s, err) && as_regions_check(s, err);
}

// Is what a walk for a reader has collected the address of a chunk of at least `from` bytes? Behind the last of a heap is a gap.
static bool is_chunk(const uint64_t *at, const uint64_t *end, uint64_t from)
{
    return !(*at & (AS_HEAP_BEGINS | AS_GAP)) && at + 1 < end && as_untagged(at[1]) - *at >= from;
}

// The walk has collected the chunks in use, in order of arenas; for a reader, which comes later, all of them, with tags.
bool as_runtimes_count_objects(struct as_ledger_builder *b, const struct as_malloc *m,
                               const struct as_object_counting *counting, bool running, struct as_error *err)
{
    if (!counting)
        return true;
    struct as_store *s = b->store;
    AS_VEC(uint64_t) large = {0};
    uint64_t *chunks = b->collected.items, *end = b->collected.count > 0 ? chunks + b->collected.count : chunks;
    bool ok = !b->collecting.gaps || as_vec_reserve(&large, b->collected.count, err);
    for (const uint64_t *at = chunks; ok && b->collecting.gaps && at < end; at++)
        if (is_chunk(at, end, counting->chunks_from(m)))
            large.items[large.count++] = *at;
    if (b->collecting.gaps)
        chunks = large.items;
    size_t count = b->collecting.gaps ? large.count : b->collected.count;
    ok = ok && as_sort_u64(chunks, count, err) && counting->count(b->target, m, s, chunks, count, err);
    for (size_t i = 0; i < s->runtimes.count && running; i++) {
        uint32_t *objects = &s->runtimes.items[i].objects;
        *objects = *objects == AS_OBJECTS_COUNTED ? AS_OBJECTS_ESTIMATED : *objects;
    }
    as_vec_free(&large);
    return ok;
}
