// SPDX-License-Identifier: MIT
// What a chunk holds, by the words beside the pointer to it: a pointer with a length and a capacity, or with two more pointers
// that end where the chunk does. The names say no more than what was seen, so that no name is wrong.
#pragma once

#include "base/align.h"
#include "base/number_map.h"
#include "graph/candidates.h"
#include "graph/container_headers.h"
#include "graph/index.h"
#include "graph/vtables.h"

enum as_pattern {
    AS_PATTERN_NONE,
    AS_PATTERN_TEXT,  // pointer, length, capacity (the chunk's, less a byte), and it holds text of that length
    AS_PATTERN_BYTES, // the same, but it holds something else, and the capacity is large: small numbers fit by chance
    AS_PATTERN_ARRAY, // begin, end, limit (which is the chunk's)
    AS_PATTERN_STDIO, // the buffer of a FILE
    AS_PATTERN_FULL, // as text, but length and capacity are the same: nothing tells where the text ends (as_pattern_of)
    AS_PATTERN_BITS, // begin, end, limit, as std::vector<bool> has them
    AS_PATTERNS
};

struct as_patterns {
    const struct as_index *index;
    // as_pattern; behind AS_SPARE_SHIFT, how many words at the chunk's end its owner does not use; behind
    // AS_LENGTH_SHIFT, how long the text is, or how many words of the array lie before its end (not its limit), as the
    // words beside the pointer say.
    uint16_t *of_node;
    uint16_t *begins;         // of the vtables
    uint8_t *shape;           // as_shape (shapes.h), up to AS_SHAPE_FEW
    struct as_number_map few; // by node + 1: the as_shape of those of which `shape` says no more than AS_SHAPE_FEW
    struct as_anchors anchors;
    struct as_claims claims;
    struct as_number_map tables; // by node + 1: of a proven table of Rust's, where it is in `buckets`
    AS_VEC(uint64_t)
    buckets; // of each: how many bytes lie before its control bytes, how many buckets, and a bit for each: it is full
    pthread_mutex_t lock;         // of what follows, while chunks are read
    struct as_number_map lengths; // by node + 1: of arrays with more than AS_MOST_LENGTH words before their ends
    uint32_t page_size;
};

// What a chunk holds, by its own pointers and by those of its neighbours (shapes.h).
enum as_shape {
    AS_SHAPE_NONE,
    AS_SHAPE_ZEROS,      // not a bit of it is set
    AS_SHAPE_SIZED,      // a pointer has the chunk's size beside it
    AS_SHAPE_END,        // it leads to its own end
    AS_SHAPE_BEGINS,     // it begins with a text of 16 bytes or more, and a zero behind that
    AS_SHAPE_TEXT,       // the same, and the text ends in the chunk's last word
    AS_SHAPE_TREE_NODE,  // of a balanced tree: parent, left, right lead to each other, as in std::map
    AS_SHAPE_LIST_NODE,  // next and previous lead to each other, as in std::list
    AS_SHAPE_RING,       // the same, but a circle closes: one of them may be the list's header
    AS_SHAPE_SINGLE,     // of a chain of nodes of one size, each of which one leads to
    AS_SHAPE_TABLE,      // a hash table's array of buckets
    AS_SHAPE_TABLE_NODE, // in the chain of such a table: there are as many as its header says
    AS_SHAPE_BLOCK_MAP,  // a std::deque's array of blocks
    AS_SHAPE_BLOCK,      // that it leads to
    // The next shapes are of well-known libraries (candidates.h), and of ld.so.
    AS_SHAPE_DEFLATE,
    AS_SHAPE_INFLATE,
    AS_SHAPE_WINDOW,
    AS_SHAPE_CHAINS,
    AS_SHAPE_PENDING,
    AS_SHAPE_FILE,
    AS_SHAPE_DIR,
    AS_SHAPE_SWISS,
    AS_SHAPE_PHP_TABLE,
    AS_SHAPE_PHP_STRING,
    AS_SHAPE_GLIB_TABLE,
    AS_SHAPE_GLIB_KEYS,
    AS_SHAPE_GLIB_HASHES,
    AS_SHAPE_GLIB_VALUES,
    AS_SHAPE_REDIS_DICT, // of redis (redis.h)
    AS_SHAPE_REDIS_TABLE,
    AS_SHAPE_REDIS_ENTRY,
    AS_SHAPE_REDIS_OBJECT,
    AS_SHAPE_REDIS_TEXT,
    AS_SHAPE_SDS,
    AS_SHAPE_LISTPACK,
    AS_SHAPE_INTSET,
    AS_SHAPE_REDIS_KEYED,
    AS_SHAPE_REDIS_FIELD,
    AS_SHAPE_VALKEY_HASHTABLE, // of valkey (valkey.h)
    AS_SHAPE_VALKEY_BUCKETS,
    AS_SHAPE_LLVM_DENSE, // of LLVM (llvm.h)
    AS_SHAPE_LLVM_STRINGS,
    AS_SHAPE_LLVM_STRING,
    AS_SHAPE_LLVM_SLAB,
    AS_SHAPE_MARIADB, // what my_malloc returns
    AS_SHAPE_LHASH,   // of OpenSSL (openssl.h)
    AS_SHAPE_LHASH_TABLE,
    AS_SHAPE_LHASH_NODE,
    AS_SHAPE_STACK,
    AS_SHAPE_STACK_ITEMS,
    AS_SHAPE_QT_TEXT, // of Qt (qt.h)
    AS_SHAPE_QT_ARRAY,
    AS_SHAPE_QT_HASH,
    AS_SHAPE_QT_TABLE,
    AS_SHAPE_QT_NODE,
    AS_SHAPE_QT_MAP,
    AS_SHAPE_QT_MAP_NODE,
    AS_SHAPE_PY_ENTRY, // of CPython (cpython_tables.c)
    AS_SHAPE_PY_TRACE,
    AS_SHAPE_PY_TRACEBACK,
    AS_SHAPE_FEW, // one of those below, which have no number of their own in a node's byte (as_patterns.few)
    // A process has few of the shapes below.
    AS_SHAPE_LINK_MAP,
    AS_SHAPE_DTV,
    AS_SHAPE_TLS,
    AS_SHAPE_LOCALE, // of glibc (glibc.h)
    AS_SHAPE_LOCALE_DATA,
    AS_SHAPE_LOCALE_NAME,
    AS_SHAPE_LOCALE_FILE,
    AS_SHAPE_LOCALE_PATH,
    AS_SHAPE_LOCALE_ARCHIVE,
    AS_SHAPE_GCONV_FCTS,
    AS_SHAPE_GCONV_STEPS,
    AS_SHAPE_GCONV_DERIVATION,
    AS_SHAPE_GCONV_OBJECT,
    AS_SHAPE_GCONV_ALIAS,
    AS_SHAPE_ICONV,
    AS_SHAPE_ICONV_BUFFER,
    AS_SHAPE_TSEARCH,
    AS_SHAPE_ENVIRON,
    AS_SHAPE_ENVIRON_ARRAY,
    AS_SHAPE_ENVIRON_TEXT,
    AS_SHAPE_EXIT_LIST,
    AS_SHAPE_TZSTRING,
    AS_SHAPE_NSS_MODULE,
    AS_SHAPE_NSS_ACTIONS,
    AS_SHAPE_NSS_STATE,
    AS_SHAPE_PASSWD,
    AS_SHAPE_GROUP,
    AS_SHAPE_HOST,
    AS_SHAPE_SERVICE,
    AS_SHAPE_RESOLV_CONF,
    AS_SHAPE_RESOLV_GLOBAL,
    AS_SHAPE_ADDRINFO,
    AS_SHAPE_REGEX,
    AS_SHAPE_REGEX_NODES,
    AS_SHAPE_REGEX_STATES,
    AS_SHAPE_HOTSPOT_POOL, // of HotSpot (hotspot_chunks.h)
    AS_SHAPE_HOTSPOT_CHUNK,
    AS_SHAPE_GOBJECT_CLASS, // of glib's type system (gobject.c)
    AS_SHAPE_GOBJECT_TYPE,
    AS_SHAPE_GOBJECT_DATA,
    AS_SHAPE_PY_HASHTABLE,
    AS_SHAPE_PY_BUCKETS,
    AS_SHAPES
};
enum {
    AS_SPARE_SHIFT = 3,
    AS_MOST_SPARE = 3,
    AS_LENGTH_SHIFT = 5,
    AS_MOST_LENGTH = (UINT16_MAX >> AS_LENGTH_SHIFT) - 1,
    AS_LONG = 255, // bytes of a text
};

_Static_assert(AS_PATTERNS <= 1 << AS_SPARE_SHIFT && AS_LONG <= AS_MOST_LENGTH &&
                   AS_BEGINS_TEXT + AS_LONG <= UINT16_MAX,
               "a pattern and its length have room");

// False: AS_NO_MEMORY. Close it in either case.
bool as_patterns_open(struct as_patterns *p, const struct as_index *x, const struct as_vtables *v, uint32_t page_size,
                      struct as_error *err);
void as_patterns_close(struct as_patterns *p);

// Gives a node a shape. One of the few that cannot be kept (there is no memory) changes nothing. AS_PATTERN_BYTES, which two numbers left
// over in a chunk may have made, counts less than a structure that is proven. By one thread, while no other asks.
void as_pattern_give(struct as_patterns *p, uint32_t node, enum as_shape shape);

static inline enum as_shape as_pattern_shape(const struct as_patterns *p, uint32_t node)
{
    uint8_t shape = p->shape[node];
    return shape == AS_SHAPE_FEW ? (enum as_shape)as_number_map_get(&p->few, (uint64_t)node + 1) : (enum as_shape)shape;
}

// A table of Rust's HashMap: its last bucket lies first.
struct as_buckets {
    uint64_t before, count; // bytes before the control bytes; buckets
    const uint64_t *full;   // a bit for each bucket
};
// Room for a table's buckets, all of which are empty as yet; NULL: there is no memory. By one thread, while no other asks.
uint64_t *as_pattern_add_buckets(struct as_patterns *p, uint32_t node, uint64_t before, uint64_t count);
// Those of a node; count 0: it is no such table.
struct as_buckets as_pattern_buckets(const struct as_patterns *p, uint32_t node);

// Inspects a word that leads to the beginning of the chunk `node`, and at what is beside it. May be called by several threads.
void as_pattern_match(struct as_patterns *p, uint32_t node, const struct as_beside *b);

// The same for texts whose length and capacity lie beside the pointer in other orders (texts.c).
void as_text_match(struct as_patterns *p, uint32_t node, const struct as_beside *b);
// What is noted of a chunk whose owner uses the first `used` of the bytes that are usable.
static inline uint16_t as_pattern_make_note(enum as_pattern pattern, uint64_t used, uint64_t usable, uint32_t length)
{
    uint64_t spare = (usable - as_align_up(used, sizeof(uint64_t))) / sizeof(uint64_t);
    unsigned words = usable < as_align_up(used, sizeof(uint64_t)) ? 0
                     : spare > AS_MOST_SPARE                      ? AS_MOST_SPARE
                                                                  : (unsigned)spare;
    return (uint16_t)((unsigned)pattern | words << AS_SPARE_SHIFT | length << AS_LENGTH_SHIFT);
}

// Two threads may note the same; of two that differ, either is true.
static inline void as_pattern_note(struct as_patterns *p, uint32_t node, uint16_t note)
{
    __atomic_store_n(&p->of_node[node], note, __ATOMIC_RELAXED);
}

// Notes that a chunk is a text of that length, if it begins with one; `request`: what it was made for. `bytes`: if it does not, and is
// large, it is bytes.
void as_pattern_note_text(struct as_patterns *p, uint32_t node, uint64_t length, uint64_t request, uint64_t usable,
                          bool bytes);

// Inspects a chunk's beginning: `count` bytes of it, and perhaps of what is behind, at least 8.
void as_pattern_begin(struct as_patterns *p, uint32_t node, const uint8_t *bytes, size_t count);

// How long the text is that a node begins with; 0: none, or fewer than 8 bytes. AS_LONG: that, or longer.
static inline uint32_t as_pattern_text(const struct as_patterns *p, uint32_t node)
{
    return p->begins[node] < AS_BEGINS_TEXT ? 0 : p->begins[node] - AS_BEGINS_TEXT;
}

static inline enum as_pattern as_pattern_of(const struct as_patterns *p, uint32_t node)
{
    enum as_pattern found = (enum as_pattern)(p->of_node[node] & ((1 << AS_SPARE_SHIFT) - 1));
    uint32_t length = p->of_node[node] >> AS_LENGTH_SHIFT, begins = as_pattern_text(p, node);
    bool text = begins != 0 && begins == length;
    if (found == AS_PATTERN_FULL)
        return begins >= length ? AS_PATTERN_TEXT : AS_PATTERN_NONE;
    if (text && found == AS_PATTERN_BYTES)
        return AS_PATTERN_TEXT;
    return found == AS_PATTERN_TEXT && !text ? AS_PATTERN_NONE : found;
}

// How many words at a chunk's end its owner does not use: what is there is left over.
static inline unsigned as_pattern_spare(const struct as_patterns *p, uint32_t node)
{
    enum as_pattern found = as_pattern_of(p, node);
    unsigned spare = p->of_node[node] >> AS_SPARE_SHIFT & AS_MOST_SPARE;
    return found == AS_PATTERN_NONE || found == AS_PATTERN_BYTES ? 0 : spare;
}

// How many words of an array lie before its end; 0: not known, or it is none.
static inline uint32_t as_pattern_used(const struct as_patterns *p, uint32_t node)
{
    uint32_t length = p->of_node[node] >> AS_LENGTH_SHIFT;
    if ((p->of_node[node] & ((1 << AS_SPARE_SHIFT) - 1)) != AS_PATTERN_ARRAY)
        return 0;
    return length <= AS_MOST_LENGTH ? length : as_number_map_get(&p->lengths, (uint64_t)node + 1);
}

// "text (pointer, length, capacity)"; NULL for AS_PATTERN_NONE.
const char *as_pattern_name(enum as_pattern pattern);
