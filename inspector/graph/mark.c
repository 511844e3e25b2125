// SPDX-License-Identifier: MIT
#include "graph/mark.h"
#include "base/memory.h"

#include <string.h>

bool as_marks_open_empty(struct as_marks *m, uint32_t nodes, struct as_error *err)
{
    *m = (struct as_marks){.nodes = nodes};
    m->bits = as_memory_map(as_marks_words(m) * sizeof *m->bits, "the marks of chunks", err);
    m->queue = m->bits ? as_memory_map(((size_t)nodes + 1) * sizeof *m->queue, "the search for chunks", err) : NULL;
    as_memory_prefer_large_pages(m->queue, m->queue ? (size_t)nodes * sizeof *m->queue : 0);
    return m->queue;
}

bool as_marks_open(struct as_marks *m, const struct as_index *x, struct as_error *err)
{
    bool ok = as_marks_open_empty(m, x->count, err);
    if (ok)
        memcpy(m->bits, x->gaps, as_marks_words(m) * sizeof *m->bits);
    return ok;
}

void as_marks_free(struct as_marks *m)
{
    as_memory_unmap(m->bits, as_marks_words(m) * sizeof *m->bits);
    as_memory_unmap(m->queue, ((size_t)m->nodes + 1) * sizeof *m->queue);
    *m = (struct as_marks){0};
}

uint32_t as_next_unmarked(const struct as_marks *m, uint32_t node)
{
    if (node >= m->nodes)
        return m->nodes;
    uint64_t bits = ~m->bits[node / 64] & (UINT64_MAX << node % 64);
    for (node &= ~(uint32_t)63; bits == 0; bits = ~m->bits[node / 64])
        if (m->nodes - node <= 64)
            return m->nodes;
        else
            node += 64;
    node += (uint32_t)__builtin_ctzll(bits);
    return node < m->nodes ? node : m->nodes;
}

void as_marks_spread(struct as_marks *m, const struct as_edges *e)
{
    struct as_marks_ahead ahead = {.in = 0};
    struct as_edge_range edges;
    uint32_t node;
    while (as_marks_take(m, &ahead, e, &node, &edges))
        for (uint32_t i = edges.first; i < edges.end; i = as_edge_next(e, i))
            as_mark(m, as_edge_to(e, node, i));
}

void as_marks_add_roots(struct as_marks *m, const struct as_edges *e, const struct as_roots *r, enum as_root_kind kind)
{
    for (size_t i = 0; i < r->list.count; i++)
        if (r->sources.items[r->list.items[i].source].kind == kind)
            as_mark(m, r->list.items[i].node);
    as_marks_spread(m, e);
}
