// SPDX-License-Identifier: MIT
#include "graph/mark.h"
#include "base/memory.h"

#include <string.h>

// How far ahead of the search its next nodes are fetched: first where their edges begin, then the edges themselves. Nodes are
// met in no order, so that each would be a miss of all caches.
enum { FAR_AHEAD = 32, NEAR_AHEAD = 16 };

bool as_marks_open(struct as_marks *m, const struct as_index *x, struct as_error *err)
{
    size_t words = (size_t)x->count / 64 + 1;
    *m = (struct as_marks){.nodes = x->count};
    m->bits = as_memory_map(words * sizeof *m->bits, "the marks of chunks", err);
    m->queue = m->bits ? as_memory_map(((size_t)x->count + 1) * sizeof *m->queue, "the search for chunks", err) : NULL;
    as_memory_prefer_large_pages(m->queue, m->queue ? (size_t)x->count * sizeof *m->queue : 0);
    if (m->queue)
        memcpy(m->bits, x->gaps, words * sizeof *m->bits);
    return m->queue;
}

void as_marks_free(struct as_marks *m)
{
    as_memory_unmap(m->bits, ((size_t)m->nodes / 64 + 1) * sizeof *m->bits);
    as_memory_unmap(m->queue, ((size_t)m->nodes + 1) * sizeof *m->queue);
    *m = (struct as_marks){0};
}

void as_marks_spread(struct as_marks *m, const struct as_edges *e)
{
    while (m->head < m->tail) {
        if (m->tail - m->head > FAR_AHEAD)
            __builtin_prefetch(&e->first[m->queue[m->head + FAR_AHEAD]]);
        if (m->tail - m->head > NEAR_AHEAD)
            __builtin_prefetch(&e->to.items[e->first[m->queue[m->head + NEAR_AHEAD]]]);
        uint32_t node = m->queue[m->head++];
        for (uint32_t i = e->first[node]; i < e->first[node + 1]; i++)
            as_mark(m, e->to.items[i]);
    }
}

void as_marks_add_roots(struct as_marks *m, const struct as_edges *e, const struct as_roots *r, enum as_root_kind kind)
{
    for (size_t i = 0; i < r->list.count; i++)
        if (r->sources.items[r->list.items[i].source].kind == kind)
            as_mark(m, r->list.items[i].node);
    as_marks_spread(m, e);
}
