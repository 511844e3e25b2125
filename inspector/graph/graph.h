// SPDX-License-Identifier: MIT
// Who leads to whom: the chunks in use of a target, the pointers between them, and the words outside that lead to them.
#pragma once

#include "capture/options.h"
#include "graph/edges.h"
#include "graph/index.h"
#include "graph/roots.h"
#include "graph/vtables.h"

struct as_graph {
    struct as_index index;
    struct as_edges edges;
    struct as_roots roots;
    struct as_vtables vtables;
    struct as_patterns patterns;
};

// Reads the graph in the moment of a capture: as_capture_options.reader, with a graph as its context.
bool as_graph_read(void *graph, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                   const uint64_t *boundaries, size_t count, struct as_error *err);
// The type of a chunk: 0: not known; a pattern; or behind the patterns the index of a vtable.
static inline uint32_t as_graph_type(const struct as_graph *g, uint32_t node)
{
    uint32_t vtable = g->vtables.of_node[node];
    return g->vtables.list.items[vtable].proven ? AS_PATTERNS + vtable : as_pattern_of(&g->patterns, node);
}
void as_graph_free(struct as_graph *g);
