// SPDX-License-Identifier: MIT
#include "graph/mapped.h"
#include "base/sort.h"
#include "graph/mark.h"

#include <stdlib.h>

enum { BESIDE_VARIABLES = 64 << 10 }; // bytes around a thread's variables that the loader may have for itself

struct mapped_search {
    as_mapped_vec *found;
    struct as_roots_plan *plan;
    as_boundary_vec *boundaries;
    struct as_error *err;
};

static bool has_address(const struct as_mapping *m, uint64_t address)
{
    return address - m->start < m->end - m->start;
}

// Does a thread have its stack there?
static bool is_a_stack(const struct as_roots_plan *p, const struct as_mapping *m)
{
    size_t i = as_lower_bound(p->stack_pointers.items, p->stack_pointers.count, m->start);
    return i < p->stack_pointers.count && has_address(m, p->stack_pointers.items[i]);
}

static bool is_own(const struct as_roots_plan *p, size_t i)
{
    const struct as_mapping *m = &p->target->mappings.items[i];
    return m->kind == AS_MAP_ANON && m->rss >= AS_LEAST_MAPPED && (m->prot & AS_PROT_READ) && !m->out_of_reach &&
           !p->runtime.items[i] && p->module_of.items[i] == UINT32_MAX && !is_a_stack(p, m);
}

// Where a heap ends right before it, its first bytes are where a header would be: they stay a root.
static bool add_part(struct mapped_search *s, uint32_t mapping, uint64_t start, uint64_t end, bool behind_a_heap)
{
    if (end - start < AS_LEAST_MAPPED || end - start > AS_LARGEST_MAPPED || s->found->count == AS_MOST_MAPPED)
        return true;
    uint64_t bytes = as_target_resident_bytes(s->plan->target, start, end);
    uint64_t begin = behind_a_heap ? start : start - AS_HEADER;
    if (bytes == AS_UNKNOWN || bytes < AS_LEAST_MAPPED)
        return true;
    return as_vec_push(s->boundaries, s->err, begin | AS_HEAP_BEGINS) && as_vec_push(s->boundaries, s->err, begin) &&
           as_vec_push(s->boundaries, s->err, (end - AS_HEADER) | AS_GAP) &&
           as_vec_push(s->found, s->err, (struct as_mapped){begin, start, end, bytes, mapping, AS_NO_NODE});
}

// What of [start, end) is no heap's.
static bool add_parts(struct mapped_search *s, uint32_t mapping, uint64_t start, uint64_t end)
{
    const struct as_range *heaps = s->plan->kept_out.items;
    size_t count = s->plan->kept_out.count, i = AS_PARTITION_POINT(0, count, k, heaps[k].end < start);
    uint64_t at = start;
    bool behind = i < count && heaps[i].end == at;
    for (; i < count && heaps[i].start < end; i++) {
        if (heaps[i].start > at && !add_part(s, mapping, at, heaps[i].start, behind))
            return false;
        behind = heaps[i].end >= at;
        at = behind ? heaps[i].end : at;
    }
    return at >= end || add_part(s, mapping, at, end, behind);
}

// The kernel may make one mapping of it and of a thread's variables: of the main thread, or of the one that is inspected.
static bool add_mapping(struct mapped_search *s, uint32_t mapping)
{
    const struct as_target *t = s->plan->target;
    const struct as_mapping *m = &t->mappings.items[mapping];
    uint64_t at = m->start;
    for (size_t i = 0; i < t->threads.count; i++) {
        uint64_t tp = t->threads.items[i].tp, before = s->plan->tls_bytes + BESIDE_VARIABLES;
        if (tp == AS_UNKNOWN || !has_address(m, tp) || tp < at)
            continue;
        if (tp - at > before && !add_parts(s, mapping, at, as_align_down(tp - before, t->page_size)))
            return false;
        at = as_align_up(tp + BESIDE_VARIABLES, t->page_size);
    }
    return at >= m->end || add_parts(s, mapping, at, m->end);
}

static int by_start(const void *a, const void *b)
{
    const struct as_range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

bool as_mapped_find(as_mapped_vec *found, struct as_roots_plan *p, const struct as_objects *o,
                    as_boundary_vec *boundaries, struct as_error *err)
{
    struct mapped_search s = {found, p, boundaries, err};
    const struct as_target *t = p->target;
    for (size_t i = 0; o->interpreter == 0 && i < t->mappings.count; i++)
        if (is_own(p, i) && !add_mapping(&s, (uint32_t)i))
            return false;
    AS_FOR_EACH(const struct as_mapped, m, found)
        if (!as_vec_push(&p->kept_out, err, (struct as_range){m->begin + AS_HEADER, m->end}))
            return false;
    if (found->count > 0)
        qsort(p->kept_out.items, p->kept_out.count, sizeof *p->kept_out.items, by_start);
    return true;
}

static bool add_root(struct as_roots *r, const struct as_mapped *m, struct as_error *err)
{
    const struct as_root_source source = {.kind = AS_ROOT_MEMORY,
                                          .start = m->start,
                                          .end = m->end,
                                          .mapping = m->mapping,
                                          .thread = UINT32_MAX,
                                          .module = UINT32_MAX};
    return as_vec_push(&r->sources, err, source) &&
           as_vec_push(&r->list, err,
                       (struct as_root){.node = m->node, .source = (uint32_t)(r->sources.count - 1) & AS_MOST_SOURCES});
}

bool as_mapped_roots(struct as_roots *r, const struct as_index *x, const struct as_edges *e, struct as_error *err)
{
    struct as_marks reached = {0};
    if (x->mapped.count == 0)
        return true;
    bool ok = as_marks_open(&reached, x, err);
    for (enum as_root_kind kind = 0; ok && kind < AS_ROOT_KINDS; kind++)
        if (!as_root_is_weak(kind))
            as_marks_add_roots(&reached, e, r, kind);
    AS_FOR_EACH_WHILE(ok, const struct as_mapped, m, &x->mapped) {
        if (as_marked(&reached, m->node))
            continue;
        ok = add_root(r, m, err);
        as_mark(&reached, m->node);
        as_marks_spread(&reached, e);
    }
    as_marks_free(&reached);
    return ok;
}
