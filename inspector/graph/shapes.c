// SPDX-License-Identifier: MIT
#include "graph/shapes.h"
#include "base/memory.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    FAR_AHEAD = 32,
};

static bool has_type(const struct as_patterns *p, const struct as_vtables *v, uint32_t node)
{
    return as_pattern_of(p, node) != AS_PATTERN_NONE || v->list.items[v->of_node[node]].proven;
}

// Does the text with which a chunk begins end in the chunk's last word, as after strdup?
static bool fills(const struct as_patterns *p, const struct as_used_chunk *chunk)
{
    uint64_t length = p->text[chunk->node], usable = chunk->size - WORD;
    return length < usable && usable - length <= WORD;
}

static void open_node(struct as_shaping *s, const struct as_patterns *p, const struct as_used_chunk *chunk)
{
    uint64_t size = chunk->size / AS_ALIGNMENT;
    s->sizes[chunk->node] = (uint8_t)(size < AS_SHAPE_LARGE ? size : AS_SHAPE_LARGE);
    if (s->of_node[chunk->node] == AS_SHAPE_BEGINS && fills(p, chunk))
        s->of_node[chunk->node] = AS_SHAPE_TEXT;
}

// All nodes without a type are open.
static void open_all(struct as_shaping *s, const struct as_patterns *p, const struct as_vtables *v)
{
    struct as_used_cursor c = as_used_begin(p->index);
    struct as_used_chunk chunk;
    while (as_used_next(&c, &chunk))
        if (has_type(p, v, chunk.node))
            s->of_node[chunk.node] = AS_SHAPE_OTHER;
        else
            open_node(s, p, &chunk);
}

// Likewise, but those of which `only` is 0 are not.
static void open_some(struct as_shaping *s, const struct as_patterns *p, const struct as_vtables *v,
                      const uint8_t *only)
{
    struct as_used_cursor c = as_used_begin(p->index);
    struct as_used_chunk chunk;
    uint32_t seen = 0;
    while (as_used_next_of(&c, only, &chunk)) {
        memset(s->of_node + seen, AS_SHAPE_OTHER, chunk.node - seen);
        seen = chunk.node + 1;
        if (has_type(p, v, chunk.node))
            s->of_node[chunk.node] = AS_SHAPE_OTHER;
        else
            open_node(s, p, &chunk);
    }
    memset(s->of_node + seen, AS_SHAPE_OTHER, p->index->count - seen);
}

// What is no shape was one only while shapes were found.
static void forget_others(uint8_t *shape, uint32_t count)
{
    const uint64_t all = UINT64_C(0x0101010101010101) * AS_SHAPE_OTHER;
    uint32_t node = 0;
    for (; count - node >= sizeof all; node += sizeof all) {
        uint64_t eight;
        memcpy(&eight, shape + node, sizeof eight);
        if (eight == all)
            memset(shape + node, AS_SHAPE_NONE, sizeof eight);
        else
            for (uint32_t i = node; i < node + sizeof eight; i++)
                shape[i] = shape[i] < AS_SHAPES ? shape[i] : AS_SHAPE_NONE;
    }
    for (; node < count; node++)
        shape[node] = shape[node] < AS_SHAPES ? shape[node] : AS_SHAPE_NONE;
}

// Targets are met in no order: they are fetched ahead.
static bool find_alike(struct as_shaping *s, struct as_error *err)
{
    const struct as_edges *e = s->edges;
    uint32_t last = e->first[e->nodes];
    for (uint32_t node = 0; (node = as_next_byte(s->sizes, node, e->nodes)) < e->nodes; node++) {
        if (!as_shape_is_open(s, node))
            continue;
        uint8_t alike = 0;
        for (uint32_t i = e->first[node]; i < e->first[node + 1] && as_edge_place(e, i) < AS_SHAPE_WORDS; i++) {
            if (i + FAR_AHEAD < last)
                __builtin_prefetch(&s->sizes[e->to.items[i + FAR_AHEAD]]);
            if (as_edge_begins(e, i) && as_shape_same_size(s, node, e->to.items[i]))
                alike |= (uint8_t)(1 << as_edge_place(e, i));
        }
        if (alike == 0)
            continue;
        uint32_t *linked = as_vec_add(&s->linked, err);
        if (!linked)
            return false;
        *linked = node;
        s->alike[node] = alike;
    }
    return true;
}

void as_shape_unmark(struct as_shaping *s)
{
    const struct as_edges *e = s->edges;
    const uint8_t plain = (uint8_t) ~(AS_SHAPE_MARKED | AS_SHAPE_START);
    for (size_t k = 0; k < s->linked.count; k++) {
        uint32_t node = s->linked.items[k];
        s->of_node[node] &= plain;
        for (uint32_t i = e->first[node]; i < e->first[node + 1] && as_edge_place(e, i) < AS_SHAPE_WORDS; i++)
            if (as_shape_is_alike(s, node, as_edge_place(e, i)))
                s->of_node[e->to.items[i]] &= plain;
    }
}

// What has a shape is no start for another.
static void forget_proven(struct as_shaping *s)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->linked.count; i++)
        if (as_shape_is_open(s, s->linked.items[i]))
            s->linked.items[kept++] = s->linked.items[i];
    s->linked.count = kept;
}

static bool find_shapes(struct as_shaping *s, const struct as_anchors *anchors, struct as_error *err)
{
    as_shape_containers(s, anchors);
    if (!find_alike(s, err))
        return false;
    as_shape_trees(s);
    forget_proven(s);
    as_shape_lists(s);
    as_shape_chains(s);
    return true;
}

bool as_shapes_find(struct as_patterns *p, const struct as_edges *e, const struct as_vtables *v, const uint8_t *only,
                    struct as_error *err)
{
    size_t nodes = (size_t)p->index->count + 1;
    struct as_shaping s = {.edges = e, .of_node = p->shape};
    s.sizes = as_memory_map_large(nodes, "the shapes of chunks", err);
    s.alike = s.sizes ? as_memory_map_large(nodes, "the shapes of chunks", err) : NULL;
    s.queue = s.alike ? as_memory_map_large(nodes * sizeof *s.queue, "the shapes of chunks", err) : NULL;
    bool ok = s.queue;
    if (ok && only)
        open_some(&s, p, v, only);
    else if (ok)
        open_all(&s, p, v);
    ok = ok && find_shapes(&s, &p->anchors, err);
    forget_others(p->shape, p->index->count);
    as_memory_unmap(s.sizes, nodes);
    as_memory_unmap(s.alike, nodes);
    as_memory_unmap(s.queue, nodes * sizeof *s.queue);
    as_vec_free(&s.linked);
    return ok;
}

const char *as_shape_name(enum as_shape shape)
{
    static const char *const names[AS_SHAPES] = {
        [AS_SHAPE_ZEROS] = "zeros",
        [AS_SHAPE_BEGINS] = "begins with text",
        [AS_SHAPE_TEXT] = "text (to the chunk's end)",
        [AS_SHAPE_TREE_NODE] = "tree node (parent, left, right)",
        [AS_SHAPE_LIST_NODE] = "list node (next, previous)",
        [AS_SHAPE_RING] = "ring of nodes (next, previous)",
        [AS_SHAPE_SINGLE] = "list node (next)",
        [AS_SHAPE_TABLE] = "hash table (buckets, count, first, elements)",
        [AS_SHAPE_TABLE_NODE] = "hash table node",
        [AS_SHAPE_BLOCK_MAP] = "array of blocks (as std::deque has)",
        [AS_SHAPE_BLOCK] = "block (as std::deque has)",
        [AS_SHAPE_SIZED] = "bytes (pointer, size)",
        [AS_SHAPE_END] = "block (leads to its own end)",
        [AS_SHAPE_DEFLATE] = "deflate_state (zlib)",
        [AS_SHAPE_INFLATE] = "inflate_state (zlib)",
        [AS_SHAPE_WINDOW] = "window (zlib)",
        [AS_SHAPE_CHAINS] = "chains of hashes (zlib)",
        [AS_SHAPE_PENDING] = "pending output (zlib)",
        [AS_SHAPE_FILE] = "FILE (glibc)",
        [AS_SHAPE_DIR] = "DIR (glibc)",
        [AS_SHAPE_LINK_MAP] = "link_map (ld.so)",
        [AS_SHAPE_DTV] = "dtv (ld.so)",
        [AS_SHAPE_TLS] = "thread-local variables",
        [AS_SHAPE_SWISS] = "hash table (as Rust's HashMap has)",
        [AS_SHAPE_PHP_TABLE] = "array (PHP)",
        [AS_SHAPE_PHP_STRING] = "string (PHP)",
        [AS_SHAPE_GLIB_TABLE] = "GHashTable (glib)",
        [AS_SHAPE_GLIB_KEYS] = "GHashTable (keys)",
        [AS_SHAPE_GLIB_HASHES] = "GHashTable (hashes)",
        [AS_SHAPE_GLIB_VALUES] = "GHashTable (values)",
    };
    return shape < AS_SHAPES ? names[shape] : NULL;
}
