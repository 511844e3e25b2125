// SPDX-License-Identifier: MIT
// What a chunk holds, by the words beside the pointer to it: a pointer with a length and a capacity, or with two more pointers
// that end where the chunk does. The names say no more than what was seen, so that no name is wrong.
#pragma once

#include "graph/anchors.h"
#include "graph/claims.h"
#include "graph/index.h"

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
    uint8_t *of_node; // as_pattern, and behind AS_SPARE_SHIFT how many words at the chunk's end its owner does not use
    uint8_t *text; // how long the text is that it begins with; 0: none, or fewer than 8 bytes. AS_LONG: that, or longer
    uint8_t *length; // as the words beside the pointer say, likewise
    uint8_t *shape;  // as_shape (shapes.h)
    struct as_anchors anchors;
    struct as_claims claims;
    uint16_t *
        used; // of an array: how many words of it lie before its end, not its limit; 0: not known; UINT16_MAX: that, or more
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
    // Of well-known libraries (claims.h), and of ld.so.
    AS_SHAPE_DEFLATE,
    AS_SHAPE_INFLATE,
    AS_SHAPE_WINDOW,
    AS_SHAPE_CHAINS,
    AS_SHAPE_PENDING,
    AS_SHAPE_FILE,
    AS_SHAPE_DIR,
    AS_SHAPE_LINK_MAP,
    AS_SHAPE_DTV,
    AS_SHAPE_TLS,
    AS_SHAPE_SWISS,
    AS_SHAPE_PHP_TABLE,
    AS_SHAPE_PHP_STRING,
    AS_SHAPE_GLIB_TABLE,
    AS_SHAPE_GLIB_KEYS,
    AS_SHAPE_GLIB_HASHES,
    AS_SHAPE_GLIB_VALUES,
    AS_SHAPES
};
enum { AS_SPARE_SHIFT = 4, AS_MOST_SPARE = 3, AS_LONG = 255 };

// False: AS_NO_MEMORY. Close it in either case.
bool as_patterns_open(struct as_patterns *p, const struct as_index *x, uint32_t page_size, struct as_error *err);
void as_patterns_close(struct as_patterns *p);

// Looks at a word that leads to the beginning of the chunk `node`, and at what is beside it. May be called by several threads.
void as_pattern_look(struct as_patterns *p, uint32_t node, const struct as_beside *b);

// The same for texts whose length and capacity lie beside the pointer in other orders (texts.c).
void as_text_look(struct as_patterns *p, uint32_t node, const struct as_beside *b);
// Notes that a chunk is a text of that length, if it begins with one; `request`: what it was made for. `bytes`: if it does not, and is
// large, it is bytes.
void as_pattern_note_text(struct as_patterns *p, uint32_t node, uint64_t length, uint64_t request, uint64_t usable,
                          bool bytes);

// Looks at a chunk's beginning: `count` bytes of it, and perhaps of what is behind, at least 8.
void as_pattern_begin(struct as_patterns *p, uint32_t node, const uint8_t *bytes, size_t count);

static inline enum as_pattern as_pattern_of(const struct as_patterns *p, uint32_t node)
{
    enum as_pattern found = (enum as_pattern)(p->of_node[node] & ((1 << AS_SPARE_SHIFT) - 1));
    bool text = p->text[node] != 0 && p->text[node] == p->length[node];
    if (found == AS_PATTERN_FULL)
        return p->text[node] >= p->length[node] ? AS_PATTERN_TEXT : AS_PATTERN_NONE;
    if (text && found == AS_PATTERN_BYTES)
        return AS_PATTERN_TEXT;
    return found == AS_PATTERN_TEXT && !text ? AS_PATTERN_NONE : found;
}

// How many words at a chunk's end its owner does not use: what is there is left over.
static inline unsigned as_pattern_spare(const struct as_patterns *p, uint32_t node)
{
    enum as_pattern found = as_pattern_of(p, node);
    return found == AS_PATTERN_NONE || found == AS_PATTERN_BYTES ? 0 : p->of_node[node] >> AS_SPARE_SHIFT;
}

// "text (pointer, length, capacity)"; NULL for AS_PATTERN_NONE.
const char *as_pattern_name(enum as_pattern pattern);
