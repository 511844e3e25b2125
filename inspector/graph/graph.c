// SPDX-License-Identifier: MIT
#include "graph/graph.h"

bool as_graph_read(void *graph, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                   const uint64_t *boundaries, size_t count, struct as_error *err)
{
    struct as_graph *g = graph;
    as_graph_free(g); // of an attempt that was given up
    if (!as_index_build(&g->index, boundaries, count, err) || !as_vtables_open(&g->vtables, t, g->index.count, err) ||
        !as_patterns_open(&g->patterns, &g->index, t->page_size, err))
        return false;
    const struct as_edge_readers readers = {&g->vtables, &g->patterns};
    if (!as_edges_read(&g->edges, &g->index, t, &readers, err) ||
        !as_roots_find(&g->roots, &g->index, &g->patterns, t, m, s, err))
        return false;
    as_edges_settle(&g->edges, &g->patterns);
    as_vtables_prove(&g->vtables);
    return true;
}

void as_graph_free(struct as_graph *g)
{
    as_roots_free(&g->roots);
    as_edges_free(&g->edges);
    as_vtables_close(&g->vtables);
    as_patterns_close(&g->patterns);
    as_index_free(&g->index);
    *g = (struct as_graph){0};
}
