// SPDX-License-Identifier: MIT
#include "graph/unused.h"
#include "graph/mark.h"

// The place from which on a node's words are unused room; AS_PLACE_FAR + 1: none is, as far as is known.
static uint32_t unused_from(const struct as_graph *g, uint32_t node)
{
    const struct as_patterns *p = &g->patterns;
    if (g->objects.types.items && g->objects.types.items[as_object_of(&g->objects, node)].leftovers)
        return 0;
    uint64_t used = g->objects.used && g->objects.used[node] != 0 ? g->objects.used[node]
                    : as_pattern_of(p, node) == AS_PATTERN_ARRAY  ? p->used[node]
                                                                  : 0;
    return used == 0 || used >= AS_PLACE_FAR ? AS_PLACE_FAR + 1 : (uint32_t)used;
}

// As as_marks_spread, but for the edges from unused room.
static void spread(struct as_marks *m, const struct as_graph *g)
{
    const struct as_edges *e = &g->edges;
    struct as_marks_ahead ahead = {.in = 0};
    uint32_t node;
    while (as_marks_take(m, &ahead, e, &node)) {
        __builtin_prefetch(&g->patterns.of_node[ahead.nodes[(ahead.out + AS_MARKS_HALF) % AS_MARKS_AHEAD]]);
        uint32_t end = e->first[node + 1], from = unused_from(g, node);
        for (uint32_t i = e->first[node]; i < end && (from > AS_PLACE_FAR || as_edge_place(e, i) < from); i++)
            as_mark(m, e->to.items[i]);
    }
}

static void take_out(struct as_graph *g, const struct as_marks *reached)
{
    struct as_edges *e = &g->edges;
    uint32_t kept = 0, i = 0;
    for (uint32_t node = 0; node < e->nodes; node++) {
        uint32_t end = e->first[node + 1], from = unused_from(g, node);
        e->first[node] = kept;
        for (; i < end; i++) {
            if (from <= AS_PLACE_FAR && as_edge_place(e, i) >= from && as_marked(reached, e->to.items[i]))
                continue;
            e->place.items[kept] = e->place.items[i];
            e->to.items[kept++] = e->to.items[i];
        }
    }
    e->first[e->nodes] = kept;
    e->to.count = e->place.count = kept;
}

bool as_graph_leave_unused(struct as_graph *g, struct as_error *err)
{
    struct as_marks reached;
    bool ok = as_marks_open(&reached, &g->index, err);
    for (size_t i = 0; ok && i < g->roots.list.count; i++)
        if (!as_root_is_weak(g->roots.sources.items[g->roots.list.items[i].source].kind))
            as_mark(&reached, g->roots.list.items[i].node);
    if (ok) {
        spread(&reached, g);
        take_out(g, &reached);
    }
    as_marks_free(&reached);
    return ok;
}
