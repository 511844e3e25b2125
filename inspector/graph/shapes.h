// SPDX-License-Identifier: MIT
// What a chunk holds, by the pointers of it and of its neighbours: nodes of trees and lists lead back to each other, a hash table's
// header says how many nodes there are. Nothing is read of the target for this. The names say no more than what was seen.
#pragma once

#include "graph/container_headers.h"
#include "graph/edges.h"
#include "graph/patterns.h"
#include "graph/vtables.h"

typedef AS_VEC(uint32_t) as_node_vec;

// What finding the shapes takes beside the graph.
struct as_shaping {
    const struct as_edges *edges;
    uint8_t *of_node;   // as_shape, and marks while a shape is proven
    uint8_t *sizes;     // of each open node, in 16 bytes; 255: that, or more; 0: it is not open
    uint8_t *alike;     // of each open node, a bit for each of its first 8 words: it leads to an open node of its size
    as_node_vec linked; // nodes with any such bit, by node
    uint64_t *queue;    // of nodes with the one that each was met from
};

enum { AS_SHAPE_MARKED = 0x80, AS_SHAPE_START = 0x40, AS_SHAPE_OTHER = 0x3f, AS_SHAPE_LARGE = 255, AS_SHAPE_WORDS = 8 };
_Static_assert((int)AS_SHAPE_FEW < (int)AS_SHAPE_OTHER, "the marks have bits of their own");

// May the node get a shape? It has no type by other evidence, and is in no shape yet.
static inline bool as_shape_is_open(const struct as_shaping *s, uint32_t node)
{
    return s->of_node[node] <= AS_SHAPE_BEGINS;
}

// malloc gives 16 bytes more than it must where too little would be left.
static inline bool as_shape_same_size(const struct as_shaping *s, uint32_t a, uint32_t b)
{
    return (unsigned)(s->sizes[a] - s->sizes[b] + 1) <= 2;
}

// The chunk that the word at `place` of a node leads to the beginning of; AS_NO_NODE: none.
static inline uint32_t as_shape_link(const struct as_shaping *s, uint32_t node, uint32_t place)
{
    return as_edge_link(s->edges, node, place);
}

// Does the word at `place`, one of the first 8, lead to the beginning of an open node of the same size?
static inline bool as_shape_is_alike(const struct as_shaping *s, uint32_t node, uint32_t place)
{
    return s->alike[node] >> place & 1;
}

// Finds the shapes of the nodes of which `only` is not 0, or of all nodes (NULL), in p->shape. Nodes of which only some are asked for
// may stay without a shape. To be called once for a graph. False: AS_NO_MEMORY.
bool as_shapes_find(struct as_patterns *p, const struct as_edges *e, const struct as_vtables *v, const uint8_t *only,
                    struct as_error *err);

// Takes the marks from all linked nodes, and from those that they lead to.
void as_shape_unmark(struct as_shaping *s);

// The parts of as_shapes_find (shape_trees.c, shape_lists.c, shape_tables.c).
void as_shape_trees(struct as_shaping *s);
void as_shape_lists(struct as_shaping *s);
void as_shape_chains(struct as_shaping *s);
void as_shape_containers(struct as_shaping *s, const struct as_anchors *a);

// "tree node (parent, left, right)"; NULL for AS_SHAPE_NONE.
const char *as_shape_name(enum as_shape shape);
