// SPDX-License-Identifier: MIT
// Trees whose nodes lead back to their parents. A tree is proven from its root on: each node's parent is the node that leads to it.
// All nodes have one size, the root has two children, and the depth is that of a red-black tree: a list is none of that.
#include "graph/shapes.h"

enum {
    FAR_AHEAD = 32,
    NEAR_AHEAD = 16,
    NO_PLACE = 0xffff,
    LINK_WORDS = 4,
    TESTED = 64, // so many nodes of a tree are tested for links to siblings: none has them, or most have
};

// Which words of a node lead to others.
struct layout {
    uint32_t up, left, right;
    uint32_t colour; // holds no pointer; NO_PLACE: it lies behind the others
};
static const struct layout layouts[] = {
    {1, 2, 3, 0},        // libstdc++: colour, parent, left, right
    {2, 0, 1, NO_PLACE}, // libc++: left, right, parent, colour
};

struct tree_walk {
    struct as_shaping *s;
    const struct layout *layout;
    size_t head, tail; // of the queue
};

// What a node leads to: parent, left, right; AS_NO_NODE: none. False: there is an edge where none can be, or a child that cannot be one.
static bool read_links(const struct as_shaping *s, uint32_t node, const struct layout *l, uint32_t links[3])
{
    const struct as_edges *e = s->edges;
    links[0] = links[1] = links[2] = AS_NO_NODE;
    AS_FOR_EDGES_WHILE(as_edge_place(e, i) < LINK_WORDS, e, node, i) {
        uint32_t place = as_edge_place(e, i);
        bool begins = as_edge_begins(e, i);
        if (place == l->up) {
            links[0] = begins ? as_edge_to(e, node, i) : AS_NO_NODE;
        } else if (place == l->left || place == l->right) {
            if (!as_shape_is_alike(s, node, place))
                return false;
            links[place == l->left ? 1 : 2] = as_edge_to(e, node, i);
        } else if (place == l->colour && begins) {
            return false;
        }
    }
    return true;
}

// Does a node lead to another child of its parent? Children of which there may be more than two do.
static bool leads_to_sibling(const struct as_shaping *s, uint32_t node, uint32_t parent, const struct layout *l)
{
    const struct as_edges *e = s->edges;
    AS_FOR_EDGES_WHILE(as_edge_place(e, i) < AS_SHAPE_WORDS, e, node, i) {
        uint32_t place = as_edge_place(e, i), to = as_edge_to(e, node, i);
        if (place != l->up && place != l->left && place != l->right && as_edge_begins(e, i) &&
            as_shape_same_size(s, node, to) && as_shape_link(s, to, l->up) == parent)
            return true;
    }
    return false;
}

// The next item of the queue. Those behind it are on their way from memory. (It takes the item, too, because GCC 12 leaves out a function
// that does no more than fetch.)
static uint64_t next_item(struct tree_walk *g)
{
    const struct as_shaping *s = g->s;
    if (g->tail - g->head > FAR_AHEAD) {
        uint32_t node = (uint32_t)s->queue[g->head + FAR_AHEAD];
        __builtin_prefetch(as_edges_span(s->edges, node));
        __builtin_prefetch(&s->of_node[node]);
        __builtin_prefetch(&s->alike[node]);
    }
    if (g->tail - g->head > NEAR_AHEAD)
        __builtin_prefetch(as_edges_begin(s->edges, (uint32_t)s->queue[g->head + NEAR_AHEAD]));
    return s->queue[g->head++];
}

// Takes the next node of the queue, and adds its children. False: the nodes are no tree.
static bool take_node(struct tree_walk *g)
{
    struct as_shaping *s = g->s;
    uint64_t item = next_item(g);
    uint32_t node = (uint32_t)item, parent = (uint32_t)(item >> 32), links[3];
    if (!as_shape_is_open(s, node) || !read_links(s, node, g->layout, links) || links[0] != parent)
        return false;
    if (parent != AS_NO_NODE && g->head < TESTED && leads_to_sibling(s, node, parent, g->layout))
        return false;
    s->of_node[node] |= AS_SHAPE_MARKED;
    for (size_t i = 1; i < 3; i++) {
        if (links[i] == AS_NO_NODE)
            continue;
        if (g->tail == s->edges->nodes) // more children than there are nodes
            return false;
        s->queue[g->tail++] = (uint64_t)node << 32 | links[i];
    }
    return true;
}

// A red-black tree of so many nodes has at most so many levels.
static bool is_balanced(size_t nodes, unsigned levels)
{
    return levels / 2 < 64 && nodes + 1 >= UINT64_C(1) << levels / 2;
}

static bool grow_tree(struct tree_walk *g, uint32_t root)
{
    unsigned levels = 0;
    g->s->queue[g->tail++] = (uint64_t)AS_NO_NODE << 32 | root;
    while (g->head < g->tail) {
        size_t level = g->tail;
        levels++;
        while (g->head < level)
            if (!take_node(g))
                return false;
    }
    return is_balanced(g->tail, levels);
}

static bool may_be_root(const struct as_shaping *s, uint32_t node, const struct layout *l)
{
    return as_shape_is_alike(s, node, l->left) && as_shape_is_alike(s, node, l->right) &&
           as_shape_link(s, node, l->up) == AS_NO_NODE;
}

static void try_root(struct as_shaping *s, uint32_t root, const struct layout *l)
{
    struct tree_walk g = {.s = s, .layout = l};
    bool tree = grow_tree(&g, root);
    for (size_t i = 0; i < g.tail; i++) {
        if (g.tail - i > NEAR_AHEAD)
            __builtin_prefetch(&s->of_node[(uint32_t)s->queue[i + NEAR_AHEAD]], 1);
        uint8_t *shape = &s->of_node[(uint32_t)s->queue[i]];
        *shape = tree ? AS_SHAPE_TREE_NODE : (uint8_t)(*shape & ~AS_SHAPE_MARKED);
    }
}

void as_shape_trees(struct as_shaping *s)
{
    for (size_t k = 0; k < s->linked.count; k++) {
        uint32_t node = s->linked.items[k];
        for (size_t i = 0; s->alike[node] & (s->alike[node] - 1) && i < sizeof layouts / sizeof *layouts; i++)
            if (as_shape_is_open(s, node) && may_be_root(s, node, &layouts[i]))
                try_root(s, node, &layouts[i]);
    }
}
