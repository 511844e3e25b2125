// SPDX-License-Identifier: MIT
// Containers that a header tells of (container_headers.h): hash tables with their nodes, deques with their blocks, lists and trees of one
// or two.
#include "graph/shapes.h"

enum {
    FAR_AHEAD = 32,
    NEAR_AHEAD = 16,
    MOST_PASSES = 8,                // over the whole graph, with headers that prove nothing
    LEAST_LIBCXX_BLOCK = 3850 / 16, // of a chunk, in 16 bytes: as many values as fit into 4096 bytes
};

struct table {
    struct as_shaping *s;
    const struct as_anchor *anchor;
    uint32_t first, end; // edges of the array of buckets
    uint32_t near, far;  // of these, those whose nodes are fetched next
    bool again;          // one of them leads to the first node of all, too
};

// The i-th place where a part of the chain begins: a bucket leads to the node before its own first one.
static uint32_t start_of(const struct table *t, uint32_t i)
{
    const struct as_edges *e = t->s->edges;
    if (i == t->end)
        return t->again ? AS_NO_NODE : t->anchor->other;
    return as_edge_begins(e, i) ? as_edge_to(e, t->anchor->node, i) : AS_NO_NODE;
}

// Behind the last edge, there is one place more.
static uint32_t next_of(const struct table *t, uint32_t i)
{
    return i < t->end ? as_edge_next(t->s->edges, i) : t->end + 1;
}

static uint32_t forward(const struct table *t, uint32_t i, uint32_t edges)
{
    for (; edges > 0 && i < t->end; edges--)
        i = as_edge_next(t->s->edges, i);
    return i;
}

static void begin_fetching(struct table *t)
{
    t->near = forward(t, t->first, NEAR_AHEAD);
    t->far = forward(t, t->near, FAR_AHEAD - NEAR_AHEAD);
}

static void fetch(struct table *t)
{
    const struct as_edges *e = t->s->edges;
    if (t->far < t->end) {
        uint32_t to = as_edge_to(e, t->anchor->node, t->far);
        __builtin_prefetch(as_edges_span(e, to));
        __builtin_prefetch(&t->s->of_node[to]);
    }
    if (t->near < t->end)
        __builtin_prefetch(as_edges_begin(e, as_edge_to(e, t->anchor->node, t->near)));
    t->far = forward(t, t->far, 1);
    t->near = forward(t, t->near, 1);
}

static bool mark_starts(struct table *t)
{
    for (uint32_t i = t->first; i <= t->end; i = next_of(t, i)) {
        uint32_t start = start_of(t, i);
        if (start == AS_NO_NODE)
            continue;
        if ((t->s->of_node[start] & ~AS_SHAPE_START) > AS_SHAPE_BEGINS ||
            !as_shape_same_size(t->s, start, t->anchor->other))
            return false;
        t->again = i < t->end && (t->again || start == t->anchor->other);
        t->s->of_node[start] |= AS_SHAPE_START;
    }
    return true;
}

// Counts the nodes from each start to the next. No node is met twice, and all together are as many as the header says.
static bool count_nodes(struct table *t)
{
    uint64_t count = 0;
    begin_fetching(t);
    for (uint32_t i = t->first; i <= t->end; i = next_of(t, i)) {
        uint32_t node = start_of(t, i);
        fetch(t);
        while (node != AS_NO_NODE) {
            uint8_t *shape = &t->s->of_node[node];
            if ((*shape & ~AS_SHAPE_START) > AS_SHAPE_BEGINS || ++count > t->anchor->count ||
                !as_shape_same_size(t->s, node, t->anchor->other))
                return false;
            *shape |= AS_SHAPE_MARKED;
            node = as_shape_link(t->s, node, 0);
            if (node != AS_NO_NODE && t->s->of_node[node] & AS_SHAPE_START)
                break;
        }
    }
    return count == t->anchor->count;
}

// All marked nodes get the shape, if it is proven, and lose their marks.
static void set_table_shape(struct table *t, bool proven)
{
    begin_fetching(t);
    for (uint32_t i = t->first; i <= t->end; i = next_of(t, i)) {
        uint32_t node = start_of(t, i);
        fetch(t);
        while (node != AS_NO_NODE && t->s->of_node[node] & AS_SHAPE_MARKED) {
            uint8_t *shape = &t->s->of_node[node];
            uint8_t start = *shape & AS_SHAPE_START;
            *shape = start | (proven ? AS_SHAPE_TABLE_NODE : *shape & ~(AS_SHAPE_MARKED | AS_SHAPE_START));
            node = as_shape_link(t->s, node, 0);
            if (node != AS_NO_NODE && t->s->of_node[node] & AS_SHAPE_START)
                break;
        }
    }
    for (uint32_t i = t->first; i <= t->end; i = next_of(t, i))
        if (start_of(t, i) != AS_NO_NODE)
            t->s->of_node[start_of(t, i)] &= (uint8_t)~AS_SHAPE_START;
}

static void try_table(struct as_shaping *s, const struct as_anchor *a)
{
    const struct as_edges *e = s->edges;
    struct table t = {s, a, as_edges_first(e, a->node), as_edges_end(e, a->node), 0, 0, false};
    if (!as_shape_is_open(s, a->node))
        return;
    // The array of an empty table is all zeros.
    bool proven = a->other == AS_NO_NODE && s->of_node[a->node] == AS_SHAPE_ZEROS;
    if (a->other != AS_NO_NODE) {
        proven = mark_starts(&t) && count_nodes(&t);
        set_table_shape(&t, proven);
    }
    if (proven)
        s->of_node[a->node] = AS_SHAPE_TABLE;
}

static uint32_t edge_at(const struct as_edges *e, uint32_t node, uint32_t place)
{
    struct as_edge_range edges = as_edges_of(e, node);
    while (edges.first < edges.end && as_edge_place(e, edges.first) < place)
        edges.first = as_edge_next(e, edges.first);
    return edges.first;
}

// The blocks that the array leads to, one behind the other, are all open, and of one size.
static bool are_blocks(const struct as_shaping *s, const struct as_anchor *a, uint32_t first)
{
    const struct as_edges *e = s->edges;
    uint32_t edge = first, end = as_edges_end(e, a->node);
    if (a->place >= AS_PLACE_FAR || end - first < a->count || a->count == 0 || as_edge_place(e, first) != a->place)
        return false;
    uint32_t block = as_edge_to(e, a->node, first);
    if (a->kind == AS_ANCHOR_DEQUE ? block != a->other : s->sizes[block] < LEAST_LIBCXX_BLOCK)
        return false;
    for (uint64_t i = 0; i < a->count; i++, edge = as_edge_next(e, edge)) {
        if (edge == end)
            return false;
        uint32_t place = as_edge_place(e, edge), to = as_edge_to(e, a->node, edge);
        if (!as_edge_begins(e, edge) || (place != AS_PLACE_FAR && place != a->place + i) || !as_shape_is_open(s, to) ||
            !as_shape_same_size(s, to, block))
            return false;
    }
    return true;
}

static void try_deque(struct as_shaping *s, const struct as_anchor *a)
{
    uint32_t first = edge_at(s->edges, a->node, a->place);
    if (!are_blocks(s, a, first))
        return;
    for (uint64_t i = 0; i < a->count; i++, first = as_edge_next(s->edges, first))
        s->of_node[as_edge_to(s->edges, a->node, first)] = AS_SHAPE_BLOCK;
    if (as_shape_is_open(s, a->node))
        s->of_node[a->node] = AS_SHAPE_BLOCK_MAP;
}

static void try_few(struct as_shaping *s, const struct as_anchor *a)
{
    uint8_t shape = a->few == AS_FEW_LIST ? AS_SHAPE_LIST_NODE : AS_SHAPE_TREE_NODE;
    uint32_t nodes[2] = {a->node, a->few == AS_FEW_ROOT ? as_shape_link(s, a->node, 1) : a->other};
    if (nodes[1] == AS_NO_NODE || (a->few == AS_FEW_ROOT && as_shape_link(s, nodes[1], 2) != a->node))
        return;
    for (size_t i = 0; i < 2; i++)
        if (as_shape_is_open(s, nodes[i]))
            s->of_node[nodes[i]] = shape;
}

// How long it takes to try a header.
static uint64_t effort(const struct as_shaping *s, const struct as_anchor *a)
{
    uint32_t nodes = s->edges->nodes;
    return as_edges_end(s->edges, a->node) - as_edges_first(s->edges, a->node) + (a->count < nodes ? a->count : nodes);
}

static void try_anchor(struct as_shaping *s, const struct as_anchor *a)
{
    if (a->kind == AS_ANCHOR_TABLE)
        try_table(s, a);
    else if (a->kind == AS_ANCHOR_DEQUE || a->kind == AS_ANCHOR_BLOCKS)
        try_deque(s, a);
    else if (a->few != AS_FEW_NONE)
        try_few(s, a);
}

void as_shape_containers(struct as_shaping *s, const struct as_anchors *a)
{
    // A hostile heap may have any number of headers that all lead to one large array.
    uint64_t left = MOST_PASSES * ((uint64_t)s->edges->list.count + s->edges->nodes);
    for (size_t i = 0; i < a->list.count; i++) {
        const struct as_anchor *anchor = &a->list.items[i];
        uint64_t steps = effort(s, anchor);
        if (steps > left)
            continue;
        try_anchor(s, anchor);
        left -= s->of_node[anchor->node] == AS_SHAPE_TABLE ? 0 : steps;
    }
}
