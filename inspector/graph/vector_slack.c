// SPDX-License-Identifier: MIT
#include "graph/graph.h"
#include "graph/mark.h"

// The place from which on a node's words are unused room; AS_PLACE_FAR + 1: none is, as far as is known.
static uint32_t unused_from(const struct as_graph *g, uint32_t node)
{
    const struct as_patterns *p = &g->patterns;
    // The first word of a chunk that is free in the JVM's eyes leads to the next one.
    if (p->shape[node] == AS_SHAPE_FEW && as_pattern_shape(p, node) == AS_SHAPE_HOTSPOT_CHUNK)
        return 1;
    if (g->objects.types.items && g->objects.types.items[as_object_of(&g->objects, node)].leftovers)
        return 0;
    uint64_t used = g->objects.used && g->objects.used[node] != 0 ? g->objects.used[node] : as_pattern_used(p, node);
    return used == 0 || used >= AS_PLACE_FAR ? AS_PLACE_FAR + 1 : (uint32_t)used;
}

// As as_marks_spread, but for the edges from unused room.
static void spread(struct as_marks *m, const struct as_graph *g)
{
    const struct as_edges *e = &g->edges;
    struct as_marks_ahead ahead = {.in = 0};
    struct as_edge_range edges;
    uint32_t node;
    while (as_marks_take(m, &ahead, e, &node, &edges)) {
        __builtin_prefetch(&g->patterns.of_node[ahead.nodes[(ahead.out + AS_MARKS_HALF) % AS_MARKS_AHEAD]]);
        uint32_t from = unused_from(g, node);
        for (uint32_t i = edges.first; i < edges.end && (from > AS_PLACE_FAR || as_edge_place(e, i) < from);
             i = as_edge_next(e, i))
            as_mark(m, as_edge_to(e, node, i));
    }
}

struct leaving {
    const struct as_graph *graph;
    const struct as_marks *reached;
};

static uint32_t keep_used(void *context, struct as_edges *e, uint32_t node, uint32_t first, uint32_t end)
{
    const struct leaving *l = context;
    uint32_t kept = first, from = unused_from(l->graph, node);
    if (from > AS_PLACE_FAR)
        return end;
    for (uint32_t i = first, next; i < end; i = next) {
        next = as_edge_next(e, i);
        if (as_edge_place(e, i) < from || !as_marked(l->reached, as_edge_to(e, node, i)))
            kept = as_edge_move(e, i, kept);
    }
    return kept;
}

bool as_graph_leave_unused(struct as_graph *g, struct as_error *err)
{
    struct as_marks reached;
    bool ok = as_marks_open(&reached, &g->index, err);
    for (size_t i = 0; ok && i < g->roots.list.count; i++)
        if (!as_root_is_weak(g->roots.sources.items[g->roots.list.items[i].source].kind))
            as_mark(&reached, g->roots.list.items[i].node);
    if (ok)
        spread(&reached, g);
    ok = ok && as_edges_sieve(&g->edges, keep_used, &(struct leaving){g, &reached}, err);
    as_marks_free(&reached);
    return ok;
}
