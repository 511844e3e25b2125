// SPDX-License-Identifier: MIT
// What a chunk holds, by the words beside the pointer to it: a pointer with a length and a capacity, or with two more pointers
// that end where the chunk does. The names say no more than what was seen, so that no name is wrong.
#pragma once

#include "graph/index.h"

enum as_pattern {
    AS_PATTERN_NONE,
    AS_PATTERN_TEXT,  // pointer, length, capacity (the chunk's, less a byte), and it holds text of that length
    AS_PATTERN_BYTES, // the same, but it holds something else
    AS_PATTERN_ARRAY, // begin, end, limit (which is the chunk's)
    AS_PATTERN_STDIO, // the buffer of a FILE
    AS_PATTERNS
};

struct as_patterns {
    const struct as_index *index;
    uint8_t *of_node; // as_pattern, and behind AS_SPARE_SHIFT how many words at the chunk's end its owner does not use
    uint8_t *text; // how long the text is that it begins with; 0: none, or fewer than 8 bytes. AS_LONG: that, or longer
    uint8_t *length; // as the words beside the pointer say, likewise
    uint32_t page_size;
};
enum { AS_SPARE_SHIFT = 4, AS_MOST_SPARE = 3, AS_LONG = 255 };

// False: AS_NO_MEMORY. Close it in either case.
bool as_patterns_open(struct as_patterns *p, const struct as_index *x, uint32_t page_size, struct as_error *err);
void as_patterns_close(struct as_patterns *p);

// Looks at a word that leads to the beginning of the chunk `node`, and at the `count` words from it on, which lie where it does. May
// be called by several threads.
void as_pattern_look(struct as_patterns *p, uint32_t node, const uint8_t *words, size_t count);

// Looks at a chunk's beginning: `count` bytes of it, and perhaps of what is behind, at least 8.
void as_pattern_begin(struct as_patterns *p, uint32_t node, const uint8_t *bytes, size_t count);

static inline enum as_pattern as_pattern_of(const struct as_patterns *p, uint32_t node)
{
    enum as_pattern found = (enum as_pattern)(p->of_node[node] & ((1 << AS_SPARE_SHIFT) - 1));
    bool text = p->text[node] != 0 && p->text[node] == p->length[node];
    return found == AS_PATTERN_TEXT && !text ? AS_PATTERN_BYTES : found;
}

// How many words at a chunk's end its owner does not use: what is there is left over.
static inline unsigned as_pattern_spare(const struct as_patterns *p, uint32_t node)
{
    return p->of_node[node] >> AS_SPARE_SHIFT;
}

// "text (pointer, length, capacity)"; NULL for AS_PATTERN_NONE.
const char *as_pattern_name(enum as_pattern pattern);
