// SPDX-License-Identifier: MIT
// First each field by what its table says (model/records.def), then what relates records to each other.

#include "dump/fields.h"
#include "model/enums.h"

#include <inttypes.h>

static bool damaged(const char *name, const char *section, uint64_t index, struct as_error *err)
{
    return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: record %" PRIu64 " of its section \"%s\"", name, index,
                   section);
}

static bool is_allowed(const struct as_view *v, const struct as_field *field, uint64_t value)
{
    uint64_t count = 0;
    if (field->rule >= AS_FIELD_INDEX && field->rule <= AS_FIELD_INDEX_PLUS_1)
        as_section_records(v, field->limit, &count);
    switch (field->rule) {
    case AS_FIELD_INDEX:
        return value < count;
    case AS_FIELD_INDEX_OR_NONE:
        return value < count || value == UINT32_MAX;
    case AS_FIELD_INDEX_PLUS_1:
        return value <= count;
    case AS_FIELD_RANGE:
        return value >= field->lowest && value <= field->limit;
    default:
        return true;
    }
}

static bool check_field(const struct as_view *v, enum as_section_id id, const struct as_field *field, const char *name,
                        struct as_error *err)
{
    const struct as_section_kind *kind = &as_section_kinds[id];
    uint64_t count;
    const char *record = as_section_records(v, id, &count);
    for (uint64_t i = 0; i < count; i++, record += kind->record_size) {
        uint64_t value = as_field_value(field, record);
        if (!is_allowed(v, field, value))
            return as_fail(err, AS_BAD_INPUT,
                           "'%s' is damaged: record %" PRIu64 " of its section \"%s\" has %s %" PRIu64, name, i,
                           kind->name, field->name, value);
    }
    return true;
}

static bool check_fields(const struct as_view *v, const char *name, struct as_error *err)
{
    for (enum as_section_id id = 0; id < AS_SECTION_COUNT; id++) {
        const struct as_fields *fields = &as_section_fields[id];
        for (uint16_t i = 0; i < fields->count; i++)
            if (fields->items[i].rule >= AS_FIELD_INDEX && !check_field(v, id, &fields->items[i], name, err))
                return false;
    }
    return true;
}

// A range of `count` records from `first` on, in a section of `total`.
static bool in_range(uint64_t first, uint64_t count, uint64_t total)
{
    return first <= total && count <= total - first;
}

static bool check_meta(const struct as_view *v, const char *name, struct as_error *err)
{
    const struct as_meta_record *m = v->meta;
    if (m->page_size < 4096 || m->page_size > 65536 || (m->page_size & (m->page_size - 1)) != 0)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: a page size of %" PRIu32 " bytes", name, m->page_size);
    if (v->strings_size && (v->strings[0] || v->strings[v->strings_size - 1]))
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its strings are not terminated", name);
    if (!(m->flags & AS_META_HAS_CHUNKS) != !v->chunks)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its flags and its sections disagree on chunk records",
                       name);
    return true;
}

// Every arena's heaps lie in its range (check_heaps), and the ranges hold no more than those: they are disjoint.
static bool check_arenas(const struct as_view *v, const char *name, struct as_error *err)
{
    uint64_t heaps = 0;
    for (uint64_t i = 0; i < v->arena_count; i++) {
        const struct as_arena_record *a = &v->arenas[i];
        if (!in_range(a->first_heap, a->heap_count, v->heap_count))
            return damaged(name, "arenas", i, err);
        heaps += a->heap_count;
    }
    for (uint64_t i = 0; i < v->heap_count; i++)
        heaps -= v->heaps[i].arena != UINT32_MAX;
    return heaps == 0 || as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its arenas share heaps", name);
}

static bool check_heap(const struct as_view *v, const struct as_heap_record *h, uint64_t index)
{
    if (h->start > h->end || (h->arena == UINT32_MAX) != (h->kind == AS_HEAP_MMAPPED))
        return false;
    if (h->arena != UINT32_MAX) {
        const struct as_arena_record *a = &v->arenas[h->arena];
        if (index < a->first_heap || index - a->first_heap >= a->heap_count)
            return false;
    }
    // No more pages than the heap spans. protected_end is what a heap_info said, and may be nonsense.
    uint64_t end = h->protected_end > h->end ? h->protected_end : h->end;
    uint64_t first = h->start / v->meta->page_size;
    uint64_t pages = end > h->start ? (end - 1) / v->meta->page_size - first + 1 : 1;
    return h->page_count <= pages && in_range(h->first_page, h->page_count, v->page_count) &&
           in_range(h->first_chunk, h->chunk_count, v->chunk_count);
}

static bool check_heaps(const struct as_view *v, const char *name, struct as_error *err)
{
    uint64_t pages_end = 0, chunks_end = 0;
    for (uint64_t i = 0; i < v->heap_count; i++) {
        const struct as_heap_record *h = &v->heaps[i];
        bool overlap = (h->page_count && h->first_page < pages_end) || (h->chunk_count && h->first_chunk < chunks_end);
        if (overlap || !check_heap(v, h, i))
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: heap %" PRIu64 " (at 0x%" PRIx64 ") %s", name, i,
                           h->start, overlap ? "shares pages or chunks with another" : "does not fit the file");
        if (h->page_count)
            pages_end = h->first_page + h->page_count;
        if (h->chunk_count)
            chunks_end = h->first_chunk + h->chunk_count;
    }
    return true;
}

static bool check_pages(const struct as_view *v, const char *name, struct as_error *err)
{
    uint32_t units = v->meta->page_size / AS_UNIT;
    for (uint64_t i = 0; i < v->page_count; i++) {
        const struct as_page_record *p = &v->pages[i];
        uint32_t sum = (uint32_t)p->in_use + p->tcache + p->fastbin + p->binned + p->top + p->metadata + p->unknown;
        if (sum > units)
            return damaged(name, "pages", i, err);
    }
    return true;
}

static bool check_region(const struct as_region_record *r)
{
    bool unknown = r->in_use == AS_UNKNOWN && r->free == AS_UNKNOWN && r->empty == AS_UNKNOWN;
    bool sums = unknown ||
                (r->in_use <= r->size && r->free <= r->size - r->in_use && r->empty <= r->size - r->in_use - r->free);
    return sums && r->size <= UINT64_MAX - r->address;
}

static bool check_runtimes(const struct as_view *v, const char *name, struct as_error *err)
{
    uint32_t units = v->meta->page_size / AS_RUNTIME_UNIT;
    for (uint64_t i = 0; i < v->region_count; i++)
        if (!check_region(&v->regions[i]))
            return damaged(name, "regions", i, err);
    for (uint64_t i = 0; i < v->type_count; i++)
        if (v->types[i].tracked > v->types[i].count)
            return damaged(name, "types", i, err);
    for (uint64_t i = 0; i < v->class_count; i++)
        if (v->classes[i].not_marked != AS_UNKNOWN && v->classes[i].not_marked > v->classes[i].count)
            return damaged(name, "classes", i, err);
    for (uint64_t i = 0; i < v->ruby_page_count; i++)
        if (v->ruby[i].free_slots > v->ruby[i].total_slots)
            return damaged(name, "ruby", i, err);
    for (uint64_t i = 0; i < v->runtime_page_count; i++) {
        const struct as_runtime_page_record *p = &v->runtime_pages[i];
        if (p->address % v->meta->page_size != 0 || (uint32_t)p->in_use + p->free > units)
            return damaged(name, "runtime_pages", i, err);
    }
    return true;
}

// A branch hangs on the one before it, or on one that this one hangs on. What has no room for its own record has no owner.
static bool check_graph(const struct as_view *v, const char *name, struct as_error *err)
{
    if (v->graph_count > 1)
        return damaged(name, "graph", 1, err);
    for (uint64_t i = 0; i < v->graph_branch_count; i++) {
        const struct as_graph_branch_record *b = &v->graph_branches[i];
        uint32_t deepest = i == 0 ? 0 : v->graph_branches[i - 1].depth + 1;
        bool owned = b->depth == 0 && !(b->flags & AS_GRAPH_OTHERS);
        if (b->depth > deepest || owned == (b->owner == UINT32_MAX))
            return damaged(name, "graph_branches", i, err);
    }
    return true;
}

static bool check_profile(const struct as_view *v, const char *name, struct as_error *err)
{
    if (v->profile_count > 1)
        return damaged(name, "profile", 1, err);
    if (v->profile_pin_count > 0 && v->profile_pin_count != v->profile_site_count)
        return damaged(name, "profile_pins", v->profile_pin_count, err);
    if (v->profile_thread_count >= AS_PROFILE_MOST_THREADS)
        return damaged(name, "profile_threads", AS_PROFILE_MOST_THREADS, err);
    // A caller stands before whom it calls: every way outwards ends.
    for (uint64_t i = 0; i < v->profile_stack_count; i++)
        if (v->profile_stacks[i].caller != UINT32_MAX && v->profile_stacks[i].caller >= i)
            return damaged(name, "profile_stacks", i, err);
    for (uint64_t i = 1; i < v->profile_share_count; i++)
        if (v->profile_shares[i].site < v->profile_shares[i - 1].site)
            return damaged(name, "profile_shares", i, err);
    return true;
}

bool as_dump_check(const struct as_view *v, const char *name, struct as_error *err)
{
    return check_fields(v, name, err) && check_meta(v, name, err) && check_arenas(v, name, err) &&
           check_heaps(v, name, err) && check_pages(v, name, err) && check_runtimes(v, name, err) &&
           check_graph(v, name, err) && check_profile(v, name, err);
}
