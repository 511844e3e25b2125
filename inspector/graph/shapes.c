// SPDX-License-Identifier: MIT
#include "graph/shapes.h"
#include "base/memory.h"
#include "base/workers.h"
#include "graph/parallel.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    AHEAD = 20, // nodes
};

static bool has_type(const struct as_patterns *p, const struct as_vtables *v, uint32_t node)
{
    return as_pattern_of(p, node) != AS_PATTERN_NONE || v->list.items[as_vtable_of(v, node)].proven;
}

// Does the text with which a chunk begins end in the chunk's last word, as after strdup?
static bool fills(const struct as_patterns *p, const struct as_used_chunk *chunk)
{
    uint64_t length = as_pattern_text(p, chunk->node), usable = chunk->size - WORD;
    return length < usable && usable - length <= WORD;
}

static void open_node(struct as_shaping *s, const struct as_patterns *p, const struct as_used_chunk *chunk)
{
    uint64_t size = chunk->size / AS_ALIGNMENT;
    s->sizes[chunk->node] = (uint8_t)(size < AS_SHAPE_LARGE ? size : AS_SHAPE_LARGE);
    if (s->of_node[chunk->node] == AS_SHAPE_BEGINS && fills(p, chunk))
        s->of_node[chunk->node] = AS_SHAPE_TEXT;
}

static void open_or_close(struct as_shaping *s, const struct as_patterns *p, const struct as_vtables *v,
                          const struct as_used_chunk *chunk)
{
    if (has_type(p, v, chunk->node))
        s->of_node[chunk->node] = AS_SHAPE_OTHER;
    else
        open_node(s, p, chunk);
}

// What one thread does with its part of the nodes. It writes of no others.
struct shaping_part {
    struct as_shaping *s;
    const struct as_patterns *patterns;
    const struct as_vtables *vtables;
    struct as_part nodes;
    as_node_vec linked;
    struct as_error err;
    bool failed;
};

// All nodes without a type are open.
static void *open_part(void *part)
{
    const struct shaping_part *w = part;
    struct as_used_chunk chunks[AS_USED_SOME];
    if (w->nodes.from == w->nodes.to)
        return NULL;
    struct as_used_cursor c = as_used_from(w->patterns->index, w->nodes.from);
    for (size_t count; (count = as_used_some(&c, w->nodes.to, chunks)) > 0;)
        for (size_t i = 0; i < count; i++)
            open_or_close(w->s, w->patterns, w->vtables, &chunks[i]);
    return NULL;
}

// Likewise, but those of which `only` is 0 are not.
static void open_some(struct as_shaping *s, const struct as_patterns *p, const struct as_vtables *v,
                      const uint8_t *only)
{
    uint32_t seen = 0;
    for (struct as_used_cursor c = as_used_begin(p->index); as_used_next_of(&c, only);) {
        memset(s->of_node + seen, AS_SHAPE_OTHER, c.chunk.node - seen);
        seen = c.chunk.node + 1;
        open_or_close(s, p, v, &c.chunk);
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
                shape[i] = shape[i] <= AS_SHAPE_FEW ? shape[i] : AS_SHAPE_NONE;
    }
    for (; node < count; node++)
        shape[node] = shape[node] <= AS_SHAPE_FEW ? shape[node] : AS_SHAPE_NONE;
}

// Targets are met in no order: they are fetched ahead. (Of edges of nodes behind that one, which are counted from their own nodes, only
// nearly: that is near enough.)
static void *find_alike(void *part)
{
    struct shaping_part *w = part;
    const struct as_shaping *s = w->s;
    const struct as_edges *e = s->edges;
    uint32_t last = (uint32_t)e->list.count, to = w->nodes.to;
    for (uint32_t node = w->nodes.from; (node = as_next_byte(s->sizes, node, to)) < to; node++) {
        if (!as_shape_is_open(s, node))
            continue;
        uint8_t alike = 0;
        uint32_t ahead = e->nodes - node > AHEAD ? as_edges_first(e, node + AHEAD) : last;
        AS_FOR_EDGES_WHILE(as_edge_place(e, i) < AS_SHAPE_WORDS, e, node, i) {
            if (ahead < last) {
                __builtin_prefetch(&s->sizes[as_edge_to(e, node + AHEAD, ahead)]);
                ahead = as_edge_next(e, ahead);
            }
            if (as_edge_begins(e, i) && as_shape_same_size(s, node, as_edge_to(e, node, i)))
                alike |= (uint8_t)(1 << as_edge_place(e, i));
        }
        if (alike == 0)
            continue;
        uint32_t *linked = as_vec_add(&w->linked, &w->err);
        w->failed = !linked;
        if (!linked)
            return NULL;
        *linked = node;
        s->alike[node] = alike;
    }
    return NULL;
}

// The linked nodes of all parts, by node.
static bool join_linked(as_node_vec *all, const struct shaping_part *part, struct as_error *err)
{
    const as_node_vec *more = &part->linked;
    if (part->failed)
        return as_fail(err, part->err.code, "%s", part->err.text);
    if (more->count == 0)
        return true;
    if (!as_vec_reserve(all, more->count, err))
        return false;
    memcpy(all->items + all->count, more->items, more->count * sizeof *more->items);
    all->count += more->count;
    return true;
}

// The first part's nodes stay where they are.
static bool join_all_linked(struct as_shaping *s, struct shaping_part *parts, uint32_t count, struct as_error *err)
{
    bool ok = !parts[0].failed || as_fail(err, parts[0].err.code, "%s", parts[0].err.text);
    s->linked = parts[0].linked;
    for (uint32_t i = 1; i < count; i++) {
        ok = ok && join_linked(&s->linked, &parts[i], err);
        as_vec_free(&parts[i].linked);
    }
    return ok;
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

static bool find_shapes(struct as_shaping *s, const struct as_anchors *anchors, struct shaping_part *parts,
                        uint32_t count, struct as_error *err)
{
    as_shape_containers(s, anchors);
    as_workers_run(find_alike, parts, sizeof *parts, count);
    if (!join_all_linked(s, parts, count, err))
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
    struct as_part cut[AS_MOST_PARTS];
    struct shaping_part parts[AS_MOST_PARTS];
    const uint32_t count = as_parts_cut(p->index->count, cut);
    for (uint32_t i = 0; i < count; i++)
        parts[i] = (struct shaping_part){.s = &s, .patterns = p, .vtables = v, .nodes = cut[i]};
    s.sizes = as_memory_map_large(nodes, "the shapes of chunks", err);
    s.alike = s.sizes ? as_memory_map_large(nodes, "the shapes of chunks", err) : NULL;
    s.queue = s.alike ? as_memory_map_large(nodes * sizeof *s.queue, "the shapes of chunks", err) : NULL;
    bool ok = s.queue;
    if (ok && only)
        open_some(&s, p, v, only);
    else if (ok)
        as_workers_run(open_part, parts, sizeof *parts, count);
    ok = ok && find_shapes(&s, &p->anchors, parts, count, err);
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
        [AS_SHAPE_LOCALE] = "locale_t (glibc)",
        [AS_SHAPE_LOCALE_DATA] = "locale data (glibc)",
        [AS_SHAPE_LOCALE_NAME] = "name of a locale (glibc)",
        [AS_SHAPE_LOCALE_FILE] = "loaded_l10nfile (glibc)",
        [AS_SHAPE_LOCALE_PATH] = "path of a locale's file (glibc)",
        [AS_SHAPE_LOCALE_ARCHIVE] = "locale_in_archive (glibc)",
        [AS_SHAPE_GCONV_FCTS] = "gconv_fcts (glibc)",
        [AS_SHAPE_GCONV_STEPS] = "steps of a conversion (glibc)",
        [AS_SHAPE_GCONV_DERIVATION] = "known_derivation (glibc)",
        [AS_SHAPE_GCONV_OBJECT] = "gconv_loaded_object (glibc)",
        [AS_SHAPE_GCONV_ALIAS] = "gconv_alias (glibc)",
        [AS_SHAPE_ICONV] = "iconv_t (glibc)",
        [AS_SHAPE_ICONV_BUFFER] = "buffer of an iconv_t (glibc)",
        [AS_SHAPE_TSEARCH] = "tsearch node (glibc)",
        [AS_SHAPE_ENVIRON] = "environ (glibc)",
        [AS_SHAPE_ENVIRON_ARRAY] = "environ_array (glibc)",
        [AS_SHAPE_ENVIRON_TEXT] = "environment variable (glibc)",
        [AS_SHAPE_EXIT_LIST] = "exit_function_list (glibc)",
        [AS_SHAPE_TZSTRING] = "tzstring_l (glibc)",
        [AS_SHAPE_NSS_MODULE] = "nss_module (glibc)",
        [AS_SHAPE_NSS_ACTIONS] = "nss_action list (glibc)",
        [AS_SHAPE_NSS_STATE] = "nss_database_state (glibc)",
        [AS_SHAPE_PASSWD] = "buffer of a passwd (glibc)",
        [AS_SHAPE_GROUP] = "buffer of a group (glibc)",
        [AS_SHAPE_HOST] = "buffer of a hostent (glibc)",
        [AS_SHAPE_SERVICE] = "buffer of a servent (glibc)",
        [AS_SHAPE_RESOLV_CONF] = "resolv_conf (glibc)",
        [AS_SHAPE_RESOLV_GLOBAL] = "resolv_conf_global (glibc)",
        [AS_SHAPE_ADDRINFO] = "addrinfo (getaddrinfo)",
        [AS_SHAPE_REGEX] = "re_dfa_t (regcomp)",
        [AS_SHAPE_REGEX_NODES] = "nodes of a re_dfa_t (regcomp)",
        [AS_SHAPE_REGEX_STATES] = "states of a re_dfa_t (regcomp)",
        [AS_SHAPE_HOTSPOT_POOL] = "ChunkPool (HotSpot)",
        [AS_SHAPE_HOTSPOT_CHUNK] = "Chunk in a ChunkPool (HotSpot)",
        [AS_SHAPE_SWISS] = "hash table (as Rust's HashMap has)",
        [AS_SHAPE_PHP_TABLE] = "array (PHP)",
        [AS_SHAPE_PHP_STRING] = "string (PHP)",
        [AS_SHAPE_GLIB_TABLE] = "GHashTable (glib)",
        [AS_SHAPE_GLIB_KEYS] = "GHashTable (keys)",
        [AS_SHAPE_GLIB_HASHES] = "GHashTable (hashes)",
        [AS_SHAPE_GLIB_VALUES] = "GHashTable (values)",
        [AS_SHAPE_REDIS_DICT] = "dict (redis)",
        [AS_SHAPE_REDIS_TABLE] = "dict table (redis)",
        [AS_SHAPE_REDIS_ENTRY] = "dict entry (redis)",
        [AS_SHAPE_REDIS_OBJECT] = "object (redis)",
        [AS_SHAPE_REDIS_TEXT] = "object with string (redis)",
        [AS_SHAPE_SDS] = "string (redis)",
        [AS_SHAPE_LISTPACK] = "listpack (redis)",
        [AS_SHAPE_INTSET] = "intset (redis)",
        [AS_SHAPE_REDIS_KEYED] = "object with key (redis)",
        [AS_SHAPE_REDIS_FIELD] = "hash entry (redis)",
        [AS_SHAPE_VALKEY_HASHTABLE] = "hash table (valkey)",
        [AS_SHAPE_VALKEY_BUCKETS] = "hash table buckets (valkey)",
        [AS_SHAPE_LLVM_DENSE] = "DenseMap table (LLVM)",
        [AS_SHAPE_LLVM_STRINGS] = "StringMap table (LLVM)",
        [AS_SHAPE_LLVM_STRING] = "StringMap entry (LLVM)",
        [AS_SHAPE_LLVM_SLAB] = "slab (LLVM)",
        [AS_SHAPE_MARIADB] = "block of my_malloc (MariaDB)",
        [AS_SHAPE_GOBJECT_CLASS] = "class (GObject)",
        [AS_SHAPE_GOBJECT_TYPE] = "type (GObject)",
        [AS_SHAPE_GOBJECT_DATA] = "type's data (GObject)",
        [AS_SHAPE_LHASH] = "LHASH (OpenSSL)",
        [AS_SHAPE_LHASH_TABLE] = "LHASH table (OpenSSL)",
        [AS_SHAPE_LHASH_NODE] = "LHASH node (OpenSSL)",
        [AS_SHAPE_STACK] = "STACK (OpenSSL)",
        [AS_SHAPE_STACK_ITEMS] = "STACK items (OpenSSL)",
        [AS_SHAPE_QT_TEXT] = "text in UTF-16 (QArrayData)",
        [AS_SHAPE_QT_ARRAY] = "array (QArrayData)",
        [AS_SHAPE_QT_HASH] = "QHash (Qt)",
        [AS_SHAPE_QT_TABLE] = "QHash table (Qt)",
        [AS_SHAPE_QT_NODE] = "QHash nodes (Qt)",
        [AS_SHAPE_QT_MAP] = "QMap (Qt)",
        [AS_SHAPE_QT_MAP_NODE] = "QMap node (Qt)",
        [AS_SHAPE_PY_HASHTABLE] = "_Py_hashtable_t (CPython)",
        [AS_SHAPE_PY_BUCKETS] = "buckets of _Py_hashtable_t (CPython)",
        [AS_SHAPE_PY_ENTRY] = "entry of _Py_hashtable_t (CPython)",
        [AS_SHAPE_PY_TRACE] = "trace (tracemalloc)",
        [AS_SHAPE_PY_TRACEBACK] = "traceback (tracemalloc)",
    };
    return shape < AS_SHAPES ? names[shape] : NULL;
}
