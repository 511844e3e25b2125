// SPDX-License-Identifier: MIT
// Lists. Nodes of a double list lead to each other; from an end on, where the list's header or nothing follows, or round a ring. Nodes
// of a single list have one size, and one node leads to each.
#include "graph/shapes.h"

enum {
    LEAST_DOUBLE = 3,
    LEAST_SINGLE = 8,
};

struct links {
    uint32_t next, previous; // which words
};
static const struct links layouts[] = {{0, 1}, {1, 2}, {2, 3}};

// Is `b` the next node of the list behind `a`?
static bool follows(const struct as_shaping *s, const struct links *l, uint32_t a, uint32_t b)
{
    return as_shape_same_size(s, a, b) && as_shape_link(s, a, l->next) == b && as_shape_link(s, b, l->previous) == a;
}

// May the list end at a node: does what the word leads to, if anything, have another size (the list's header), and lead back?
static bool ends(const struct as_shaping *s, uint32_t node, uint32_t place, uint32_t back)
{
    uint32_t to = as_shape_link(s, node, place);
    return to == AS_NO_NODE || (!as_shape_same_size(s, node, to) && as_shape_link(s, to, back) == node);
}

static void set_list_shape(struct as_shaping *s, size_t count, enum as_shape shape)
{
    for (size_t i = 0; i < count; i++) {
        uint8_t *of = &s->of_node[s->queue[i]];
        *of = shape != AS_SHAPE_NONE ? (uint8_t)shape : (uint8_t)(*of & ~AS_SHAPE_MARKED);
    }
}

// Are there other nodes of its size that a node leads to, and that lead back to it? Then it is one of a tree, or of something larger.
static bool has_others(const struct as_shaping *s, const struct links *l, uint32_t node)
{
    const struct as_edges *e = s->edges;
    AS_FOR_EDGES_WHILE(as_edge_place(e, i) < AS_SHAPE_WORDS, e, node, i) {
        uint32_t place = as_edge_place(e, i), to = as_edge_to(e, node, i);
        if (place == l->next || place == l->previous || !as_edge_begins(e, i) || !as_shape_same_size(s, node, to))
            continue;
        AS_FOR_EDGES_WHILE(as_edge_place(e, k) < AS_SHAPE_WORDS, e, to, k)
            if (as_edge_to(e, to, k) == node && as_edge_begins(e, k))
                return true;
    }
    return false;
}

// Goes along a list from `node`, as far as it is one. Returns how many nodes are in the queue, and what the last leads to.
static size_t walk(struct as_shaping *s, const struct links *l, uint32_t node, uint32_t *end)
{
    size_t count = 0;
    for (;; node = *end) {
        s->of_node[node] |= AS_SHAPE_MARKED;
        s->queue[count++] = node;
        *end = as_shape_link(s, node, l->next);
        if (*end == AS_NO_NODE || !as_shape_is_open(s, *end) || !follows(s, l, node, *end) || has_others(s, l, node))
            return count;
    }
}

static void try_list(struct as_shaping *s, const struct links *l, uint32_t head)
{
    uint32_t end;
    size_t count = walk(s, l, head, &end);
    uint32_t last = (uint32_t)s->queue[count - 1];
    bool list = count >= LEAST_DOUBLE && ends(s, last, l->next, l->previous) && !has_others(s, l, last);
    set_list_shape(s, count, list ? AS_SHAPE_LIST_NODE : AS_SHAPE_NONE);
}

// What is found to be no ring is not tried again: it is marked as a start.
static void try_ring(struct as_shaping *s, const struct links *l, uint32_t node)
{
    uint32_t end;
    size_t count = walk(s, l, node, &end);
    uint32_t last = (uint32_t)s->queue[count - 1];
    bool ring = count >= LEAST_DOUBLE && end == node && follows(s, l, last, node) && !has_others(s, l, last);
    set_list_shape(s, count, ring ? AS_SHAPE_RING : AS_SHAPE_NONE);
    for (size_t i = 0; !ring && i < count; i++)
        s->of_node[s->queue[i]] |= AS_SHAPE_START;
}

static void find_doubles(struct as_shaping *s, const struct links *l, bool rings)
{
    for (size_t k = 0; k < s->linked.count; k++) {
        uint32_t node = s->linked.items[k];
        if (!as_shape_is_alike(s, node, l->next) || !as_shape_is_open(s, node))
            continue;
        uint32_t next = as_shape_link(s, node, l->next);
        if (!as_shape_is_open(s, next) || !follows(s, l, node, next))
            continue;
        if (rings)
            try_ring(s, l, node);
        else if (ends(s, node, l->previous, l->next))
            try_list(s, l, node);
    }
    if (rings)
        as_shape_unmark(s);
}

void as_shape_lists(struct as_shaping *s)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        find_doubles(s, &layouts[i], false);
        find_doubles(s, &layouts[i], true);
    }
}

// The one word among a node's first that leads to the beginning of a chunk of its size. False: there is none, or more than one
// (*to is AS_NO_NODE only if there is none).
static bool only_link(const struct as_shaping *s, uint32_t node, uint32_t *to, uint32_t *place)
{
    const struct as_edges *e = s->edges;
    size_t found = 0;
    *to = AS_NO_NODE;
    if (s->alike[node] == 0)
        return false;
    AS_FOR_EDGES_WHILE(as_edge_place(e, i) < AS_SHAPE_WORDS, e, node, i)
        if (as_edge_begins(e, i) && as_shape_same_size(s, node, as_edge_to(e, node, i))) {
            *to = as_edge_to(e, node, i);
            *place = as_edge_place(e, i);
            found++;
        }
    return found == 1;
}

// How many lead to a node: START: one, START and MARKED: several.
static void count_links(struct as_shaping *s)
{
    const struct as_edges *e = s->edges;
    for (size_t k = 0; k < s->linked.count; k++) {
        uint32_t node = s->linked.items[k];
        if ((s->of_node[node] & ~(AS_SHAPE_MARKED | AS_SHAPE_START)) > AS_SHAPE_BEGINS)
            continue;
        AS_FOR_EDGES_WHILE(as_edge_place(e, i) < AS_SHAPE_WORDS, e, node, i) {
            uint32_t to = as_edge_to(e, node, i);
            if (as_edge_begins(e, i) && as_shape_same_size(s, node, to))
                s->of_node[to] |= s->of_node[to] & AS_SHAPE_START ? AS_SHAPE_MARKED : AS_SHAPE_START;
        }
    }
}

static bool is_met_once(const struct as_shaping *s, uint32_t node)
{
    return s->of_node[node] & AS_SHAPE_START && (s->of_node[node] & ~AS_SHAPE_START) <= AS_SHAPE_BEGINS;
}

// Goes along the chain that begins with a node that none leads to. Returns how many nodes are in the queue; 0: it is no list.
static size_t follow_chain(struct as_shaping *s, uint32_t node)
{
    uint32_t to, place, chain_place = UINT32_MAX;
    size_t count = 0;
    for (;; node = to) {
        s->queue[count++] = node;
        if (!only_link(s, node, &to, &place))
            return to == AS_NO_NODE ? count : 0;
        if (!is_met_once(s, to) || (chain_place != UINT32_MAX && chain_place != place))
            return 0;
        chain_place = place;
    }
}

void as_shape_chains(struct as_shaping *s)
{
    count_links(s);
    for (size_t k = 0; k < s->linked.count; k++) {
        uint32_t node = s->linked.items[k];
        if (!as_shape_is_open(s, node))
            continue;
        size_t count = follow_chain(s, node);
        if (count >= LEAST_SINGLE)
            set_list_shape(s, count, AS_SHAPE_SINGLE);
    }
    as_shape_unmark(s);
}
