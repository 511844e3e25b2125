// SPDX-License-Identifier: MIT
#include "dump/check.h"

#include "model/enums.h"

#include <inttypes.h>

// A range of `count` records from `first` on, in a section of `total`.
static bool in_range(uint64_t first, uint64_t count, uint64_t total)
{
    return first <= total && count <= total - first;
}

static bool is_index(uint32_t index, uint64_t total)
{
    return index == UINT32_MAX || index < total;
}

static bool check_meta(const struct as_view *v, const char *name, struct as_error *err)
{
    const struct as_meta_record *m = v->meta;
    if (m->page_size < 4096 || m->page_size > 65536 || (m->page_size & (m->page_size - 1)) != 0)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: a page size of %" PRIu32 " bytes", name, m->page_size);
    if (m->target_kind < AS_TARGET_PROCESS || m->target_kind > AS_TARGET_SELF)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: target kind %" PRIu32, name, m->target_kind);
    if (m->malloc_kind > AS_MALLOC_GO)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: malloc kind %" PRIu32, name, m->malloc_kind);
    if (m->mode < AS_MODE_FREEZE || m->mode > AS_MODE_CORE)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: consistency mode %" PRIu32, name, m->mode);
    if (m->ruby > AS_RUBY_UNPROVEN)
        return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: state of Ruby %" PRIu32, name, m->ruby);
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
        if (a->malloc_index >= v->malloc_count || !in_range(a->first_heap, a->heap_count, v->heap_count))
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: arena %" PRIu64 " points outside the file", name, i);
        heaps += a->heap_count;
    }
    for (uint64_t i = 0; i < v->heap_count; i++)
        heaps -= v->heaps[i].arena != UINT32_MAX;
    return heaps == 0 || as_fail(err, AS_BAD_INPUT, "'%s' is damaged: its arenas share heaps", name);
}

static bool check_heap(const struct as_view *v, const struct as_heap_record *h, uint64_t index)
{
    if (h->kind < AS_HEAP_BRK || h->kind > AS_HEAP_MMAPPED || h->start > h->end)
        return false;
    if ((h->arena == UINT32_MAX) != (h->kind == AS_HEAP_MMAPPED) || !is_index(h->arena, v->arena_count))
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
        if (sum > units || p->state < AS_PAGE_USED || p->state > AS_PAGE_UNKNOWN)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: page record %" PRIu64 " (state %d, %" PRIu32 " units)",
                           name, i, p->state, sum);
    }
    return true;
}

static bool check_runtimes(const struct as_view *v, const char *name, struct as_error *err)
{
    for (uint64_t i = 0; i < v->runtime_count; i++) {
        const struct as_runtime_record *r = &v->runtimes[i];
        if (r->state < AS_REGIONS_FOUND || r->state > AS_REGIONS_UNPROVEN || r->row >= AS_ROW_PLACES ||
            r->objects > AS_OBJECTS_UNKNOWN)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: runtime record %" PRIu64, name, i);
    }
    for (uint64_t i = 0; i < v->region_count; i++) {
        const struct as_region_record *r = &v->regions[i];
        bool unknown = r->in_use == AS_UNKNOWN && r->free == AS_UNKNOWN && r->empty == AS_UNKNOWN;
        bool sums = unknown || (r->in_use <= r->size && r->free <= r->size - r->in_use &&
                                r->empty <= r->size - r->in_use - r->free);
        if (r->runtime >= v->runtime_count || !is_index(r->heap, v->heap_count) || r->size > UINT64_MAX - r->address ||
            !sums)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: region record %" PRIu64, name, i);
    }
    for (uint64_t i = 0; i < v->size_class_count; i++) {
        if (v->size_classes[i].runtime >= v->runtime_count)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: size class record %" PRIu64, name, i);
    }
    for (uint64_t i = 0; i < v->type_count; i++) {
        const struct as_type_record *t = &v->types[i];
        if (t->runtime >= v->runtime_count || t->tracked > t->count)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: type record %" PRIu64, name, i);
    }
    for (uint64_t i = 0; i < v->class_count; i++) {
        const struct as_class_record *c = &v->classes[i];
        if (c->runtime >= v->runtime_count || c->type >= v->type_count || c->kind < AS_CLASS_NAMED ||
            c->kind > AS_CLASS_INTERNAL || (c->not_marked != AS_UNKNOWN && c->not_marked > c->count))
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: class record %" PRIu64, name, i);
    }
    for (uint64_t i = 0; i < v->space_count; i++) {
        if (v->spaces[i].runtime >= v->runtime_count)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: space record %" PRIu64, name, i);
    }
    for (uint64_t i = 0; i < v->page_fill_count; i++) {
        if (v->page_fill[i].eighths >= AS_FILL_EIGHTHS)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: page fill record %" PRIu64, name, i);
    }
    uint32_t units = v->meta->page_size / AS_RUNTIME_UNIT;
    for (uint64_t i = 0; i < v->runtime_page_count; i++) {
        const struct as_runtime_page_record *p = &v->runtime_pages[i];
        if (p->address % v->meta->page_size != 0 || (uint32_t)p->in_use + p->free > units)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: runtime page record %" PRIu64, name, i);
    }
    return true;
}

static bool damaged(const char *name, const char *record, uint64_t index, struct as_error *err)
{
    return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: %s record %" PRIu64, name, record, index);
}

// A branch hangs on the one before it, or on one that this one hangs on. What has no room for its own record has no owner.
static bool check_branches(const struct as_view *v, const char *name, struct as_error *err)
{
    for (uint64_t i = 0; i < v->graph_branch_count; i++) {
        const struct as_graph_branch_record *b = &v->graph_branches[i];
        uint32_t deepest = i == 0 ? 0 : v->graph_branches[i - 1].depth + 1;
        bool owned = b->depth == 0 && !(b->flags & AS_GRAPH_OTHERS);
        if (b->depth > deepest || b->depth >= AS_GRAPH_DEPTH || !is_index(b->type, v->graph_type_count) ||
            (owned ? b->owner >= v->graph_owner_count : b->owner != UINT32_MAX))
            return damaged(name, "graph branch", i, err);
    }
    return true;
}

static bool check_graph(const struct as_view *v, const char *name, struct as_error *err)
{
    if (v->graph_count > 1)
        return damaged(name, "graph", 1, err);
    for (uint64_t i = 0; i < v->graph_leak_count; i++)
        if (!is_index(v->graph_leaks[i].type, v->graph_type_count))
            return damaged(name, "graph leak", i, err);
    for (uint64_t i = 0; i < v->graph_holder_count; i++) {
        const struct as_graph_holder_record *h = &v->graph_holders[i];
        if (!is_index(h->type, v->graph_type_count) || !is_index(h->owner, v->graph_owner_count) ||
            !is_index(h->leak, v->graph_leak_count))
            return damaged(name, "graph holder", i, err);
    }
    for (uint64_t i = 0; i < v->graph_place_count; i++) {
        const struct as_graph_place_record *p = &v->graph_places[i];
        if (p->page >= v->page_count || p->holder >= v->graph_holder_count)
            return damaged(name, "graph place", i, err);
    }
    for (uint64_t i = 0; i < v->graph_leading_count; i++)
        if (v->graph_leading[i].owner >= v->graph_owner_count)
            return damaged(name, "graph leading", i, err);
    return check_branches(v, name, err);
}

static bool check_profile(const struct as_view *v, const char *name, struct as_error *err)
{
    if (v->profile_count > 1)
        return damaged(name, "profile", 1, err);
    for (uint64_t i = 0; i < v->profile_frame_count; i++)
        if (!is_index(v->profile_frames[i].module, v->profile_module_count) ||
            v->profile_frames[i].line > v->profile_line_count)
            return damaged(name, "profile frame", i, err);
    // A caller stands before whom it calls: every way outwards ends.
    for (uint64_t i = 0; i < v->profile_stack_count; i++)
        if (v->profile_stacks[i].frame >= v->profile_frame_count || !is_index(v->profile_stacks[i].caller, i))
            return damaged(name, "profile stack", i, err);
    for (uint64_t i = 0; i < v->profile_site_count; i++)
        if (v->profile_sites[i].stack >= v->profile_stack_count)
            return damaged(name, "profile site", i, err);
    if (v->profile_kept_count > 0 && v->profile_kept_count != v->profile_site_count)
        return damaged(name, "profile kept", v->profile_kept_count, err);
    if (v->profile_thread_count >= AS_PROFILE_MOST_THREADS)
        return damaged(name, "profile thread", AS_PROFILE_MOST_THREADS, err);
    if (v->profile_count == 1 && (v->profile->unknown_python > UINT16_MAX || v->profile->unknown_ruby > UINT16_MAX ||
                                  v->profile->hooks > AS_HOOKS_AT_ENTRIES))
        return damaged(name, "profile", 0, err);
    for (uint64_t i = 0; i < v->profile_place_count; i++)
        if (v->profile_places[i].page >= v->page_count || v->profile_places[i].site >= v->profile_site_count)
            return damaged(name, "profile place", i, err);
    for (uint64_t i = 0; i < v->profile_share_count; i++)
        if (v->profile_shares[i].site >= v->profile_site_count ||
            !is_index(v->profile_shares[i].thread, v->profile_thread_count) ||
            (i > 0 && v->profile_shares[i].site < v->profile_shares[i - 1].site))
            return damaged(name, "profile share", i, err);
    return true;
}

static bool check_rest(const struct as_view *v, const char *name, struct as_error *err)
{
    for (uint64_t i = 0; i < v->thread_count; i++) {
        if (!is_index(v->threads[i].arena, v->arena_count))
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: thread record %" PRIu64 " points outside it", name, i);
    }
    for (uint64_t i = 0; i < v->malloc_count; i++) {
        if (v->mallocs[i].layout_source > AS_LAYOUT_SCAN)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: malloc record %" PRIu64 " has layout source %" PRIu32,
                           name, i, v->mallocs[i].layout_source);
    }
    for (uint64_t i = 0; i < v->ruby_count; i++) {
        const struct as_ruby_page_record *p = &v->ruby[i];
        if (!is_index(p->heap, v->heap_count) || p->free_slots > p->total_slots)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: Ruby page record %" PRIu64, name, i);
    }
    if (!check_runtimes(v, name, err) || !check_graph(v, name, err) || !check_profile(v, name, err))
        return false;
    for (uint64_t i = 0; i < v->warning_count; i++) {
        const struct as_warning_record *w = &v->warnings[i];
        if (!is_index(w->arena, v->arena_count) || !is_index(w->heap, v->heap_count) || w->code > AS_WARN_ESTIMATED)
            return as_fail(err, AS_BAD_INPUT, "'%s' is damaged: warning record %" PRIu64, name, i);
    }
    return true;
}

bool as_dump_check(const struct as_view *v, const char *name, struct as_error *err)
{
    return check_meta(v, name, err) && check_arenas(v, name, err) && check_heaps(v, name, err) &&
           check_pages(v, name, err) && check_rest(v, name, err);
}
