// SPDX-License-Identifier: MIT
#include "runtimes/regions.h"

#include "base/sort.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    LEAST_PAGE = 4096, // bytes of the kernel's smallest
    INDEX_BITS = 20,   // of an index, beside the 44 of its page's address
    MOST = 1 << INDEX_BITS,
    EVIDENCE = 256, // bytes of its text
};

// What sorts by address, and has the index.
static uint64_t key(uint64_t address, size_t index)
{
    return address / LEAST_PAGE << INDEX_BITS | index;
}

// The mapping right before or behind this one, by a step of -1 or 1, if a runtime's heap could go on there; else NULL.
static const struct as_mapping *next_to(const struct as_target *t, const struct as_mapping *m, int step)
{
    size_t index = (size_t)(m - t->mappings.items) + (size_t)(ptrdiff_t)step; // before the first: beyond all
    const struct as_mapping *next = index < t->mappings.count ? &t->mappings.items[index] : NULL;
    return next && as_is_runtime_memory(next) && (step < 0 ? next->end == m->start : next->start == m->end) ? next
                                                                                                            : NULL;
}

bool as_is_runtime_range(const struct as_target *t, uint64_t address, uint64_t length, int64_t *reads_left)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    if (!as_is_runtime_memory(m))
        return false;
    while (m->end - address < length)
        if (--*reads_left <= 0 || !(m = next_to(t, m, 1)))
            return false;
    return true;
}

int64_t as_runtime_read_budget(const struct as_target *t, uint64_t unit)
{
    uint64_t bytes = 0, count = 0;
    for (size_t i = 0; i < t->mappings.count; i++)
        if (as_is_runtime_memory(&t->mappings.items[i])) {
            bytes += t->mappings.items[i].end - t->mappings.items[i].start;
            count++;
        }
    return (int64_t)(bytes / unit + count);
}

struct as_range as_runtime_around(const struct as_target *t, uint64_t address, uint64_t reach)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    if (!as_is_runtime_memory(m))
        return (struct as_range){0};
    struct as_range around = {m->start, m->end};
    for (const struct as_mapping *before = m; address - around.start < reach && (before = next_to(t, before, -1));)
        around.start = before->start;
    for (const struct as_mapping *behind = m; around.end - address < reach && (behind = next_to(t, behind, 1));)
        around.end = behind->end;
    if (address - around.start > reach)
        around.start = address - reach;
    if (around.end - address > reach)
        around.end = address + reach;
    return around;
}

uint32_t as_runtime_add(struct as_store *s, uint32_t kind, uint32_t row, struct as_error *err)
{
    if (!as_vec_push(&s->runtimes, err,
                     (struct as_runtime_record){
                         .kind = kind,
                         .state = AS_REGIONS_UNPROVEN,
                         .row = row,
                         .region_size = AS_UNKNOWN,
                         .pool_size = AS_UNKNOWN,
                         .used = AS_UNKNOWN,
                         .committed = AS_UNKNOWN,
                         .traces = AS_UNKNOWN,
                         .trace_bytes = AS_UNKNOWN,
                         .stacks = AS_UNKNOWN,
                         .stacks_resident = AS_UNKNOWN,
                         .goroutines = AS_UNKNOWN,
                         .free_goroutines = AS_UNKNOWN,
                     }))
        return UINT32_MAX;
    return (uint32_t)(s->runtimes.count - 1);
}

bool as_regions_add(struct as_target *t, struct as_store *s, uint32_t runtime, uint64_t start, uint64_t end,
                    uint64_t *bytes, struct as_error *err)
{
    for (size_t i = as_target_mapping_from(t, start); i < t->mappings.count && t->mappings.items[i].start < end; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        bool accessible = m->prot & (AS_PROT_READ | AS_PROT_WRITE | AS_PROT_EXEC);
        if (m->kind != AS_MAP_ANON || (m->prot & AS_PROT_SHARED) || !accessible)
            continue;
        struct as_region_record *region = as_vec_add(&s->regions, err);
        if (!region)
            return false;
        uint64_t from = m->start > start ? m->start : start;
        uint64_t to = m->end < end ? m->end : end;
        *region = (struct as_region_record){
            .address = from,
            .size = to - from,
            .resident = AS_UNKNOWN,
            .in_use = AS_UNKNOWN,
            .free = AS_UNKNOWN,
            .empty = AS_UNKNOWN,
            .empty_resident = AS_UNKNOWN,
            .runtime = runtime,
            .heap = UINT32_MAX,
        };
        *bytes += to - from;
    }
    return true;
}

bool as_regions_sort(struct as_store *s, size_t first, struct as_error *err)
{
    struct as_region_record *regions = s->regions.items + first;
    size_t count = s->regions.count - first;
    AS_VEC(uint64_t) order = {0};
    AS_VEC(struct as_region_record) sorted = {0};
    bool ok = count < MOST && as_vec_reserve(&order, count, err) && as_vec_reserve(&sorted, count, err);
    for (size_t i = 0; i < count && ok; i++)
        order.items[order.count++] = key(regions[i].address, i);
    ok = ok && as_sort_u64(order.items, count, err);
    for (size_t i = 0; i < count && ok; i++)
        sorted.items[i] = regions[order.items[i] & (MOST - 1)];
    if (ok && count > 0)
        memcpy(regions, sorted.items, count * sizeof *regions);
    as_vec_free(&order);
    as_vec_free(&sorted);
    return ok || count >= MOST;
}

void as_runtime_found(struct as_store *s, uint32_t runtime, uint64_t committed, const char *releases,
                      const char *format, ...)
{
    struct as_runtime_record *record = &s->runtimes.items[runtime];
    char text[EVIDENCE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    record->evidence = as_strings_add(&s->strings, text, sizeof text);
    record->releases = releases ? as_strings_add(&s->strings, releases, EVIDENCE) : 0;
    record->state = AS_REGIONS_FOUND;
    record->committed = committed;
}

void as_runtime_unproven(struct as_store *s, uint32_t runtime, size_t first, const char *why)
{
    struct as_runtime_record *record = &s->runtimes.items[runtime];
    s->regions.count = first;
    record->state = AS_REGIONS_UNPROVEN;
    as_store_warn(s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN, "%s", why);
}

// A heap of malloc's, or a region.
struct heap_or_region {
    uint64_t start, end;
    const struct as_region_record *region; // NULL: malloc's
};

static struct heap_or_region heap_or_region_at(const struct as_store *s, size_t index)
{
    if (index < s->heaps.count)
        return (struct heap_or_region){s->heaps.items[index].start, s->heaps.items[index].end, NULL};
    const struct as_region_record *region = &s->regions.items[index - s->heaps.count];
    return (struct heap_or_region){region->address, region->address + region->size, region};
}

// Takes note that two overlap.
static void mark_overlap(struct as_store *s, const struct heap_or_region *h)
{
    if (h->region && s->runtimes.items[h->region->runtime].kind != AS_RUNTIME_CPYTHON)
        s->runtimes.items[h->region->runtime].state = AS_REGIONS_UNPROVEN;
}

static void find_overlaps(struct as_store *s, const uint64_t *order, size_t count)
{
    struct heap_or_region farthest = {0};
    for (size_t i = 0; i < count; i++) {
        struct heap_or_region h = heap_or_region_at(s, order[i] & (MOST - 1));
        if (h.start < farthest.end) {
            mark_overlap(s, &h);
            mark_overlap(s, &farthest);
        }
        if (h.end > farthest.end)
            farthest = h;
    }
}

// Drops the regions of runtimes that are unproven by now.
static void drop_unproven(struct as_store *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->regions.count; i++)
        if (s->runtimes.items[s->regions.items[i].runtime].state == AS_REGIONS_FOUND)
            s->regions.items[kept++] = s->regions.items[i];
    if (kept < s->regions.count)
        as_store_warn(
            s, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
            "what a runtime says is its heap overlaps malloc's heaps, or another runtime's: it is not believed, and "
            "its bytes are counted in the other rows");
    s->regions.count = kept;
}

bool as_regions_check(struct as_store *s, struct as_error *err)
{
    AS_VEC(uint64_t) order = {0};
    size_t count = s->heaps.count + s->regions.count;
    bool ok = true;
    if (s->regions.count == 0)
        return true;
    for (size_t i = 0; i < s->runtimes.count && count >= MOST; i++) // too many to be told apart
        if (s->runtimes.items[i].kind != AS_RUNTIME_CPYTHON)
            s->runtimes.items[i].state = AS_REGIONS_UNPROVEN;
    if (count < MOST) {
        ok = as_vec_reserve(&order, count, err);
        for (size_t i = 0; i < count && ok; i++)
            order.items[order.count++] = key(heap_or_region_at(s, i).start, i);
        ok = ok && as_sort_u64(order.items, count, err);
        if (ok)
            find_overlaps(s, order.items, count);
    }
    as_vec_free(&order);
    drop_unproven(s);
    return ok;
}
