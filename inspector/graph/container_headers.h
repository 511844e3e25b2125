// SPDX-License-Identifier: MIT
// Headers of containers, as they lie beside a pointer to one of their chunks: in a variable, on a stack, in an object. Each says what
// the container is made of, and as_shapes_find proves it.
#pragma once

#include "graph/index.h"
#include "target/target.h"

#include <pthread.h>

// The words from a pointer to the beginning of a chunk on.
struct as_beside {
    uint64_t address;     // of the pointer
    const uint8_t *words; // it, and what is behind it
    size_t before, count; // how many words are known before it, and from it on; of a chunk: its own
};

static inline uint64_t as_word_at(const uint8_t *bytes, ptrdiff_t word)
{
    uint64_t value;
    __builtin_memcpy(&value, bytes + word * (ptrdiff_t)sizeof value, sizeof value);
    return value;
}

// The word so many behind the pointer; 0: it is not known, or not the chunk's own.
static inline uint64_t as_beside_word(const struct as_beside *b, size_t behind)
{
    return behind < b->count ? as_word_at(b->words, (ptrdiff_t)behind) : 0;
}

enum as_anchor_kind {
    AS_ANCHOR_TABLE, // buckets, their number, the first node, how many, the greatest load as a float: std::unordered_map's
    AS_ANCHOR_DEQUE, // an array of blocks, its length, and two positions in it: std::deque's
    AS_ANCHOR_BLOCKS, // an array of blocks: its begin, the first and behind the last that is used, its end; libc++'s std::deque
    AS_ANCHOR_FEW, // two pointers, and how many: the ends of a std::list or std::map of one or two
};

// How the nodes of a container of one or two lie in memory: found by as_anchors_confirm.
enum as_few {
    AS_FEW_NONE,
    AS_FEW_LIST,
    AS_FEW_TREE,
    AS_FEW_ROOT, // of libc++'s: the header does not lead to the other node, which is the right child
};

struct as_anchor {
    enum as_anchor_kind kind;
    enum as_few few;
    uint32_t node;    // that the first word leads to
    uint32_t other;   // a table's first node, a deque's first block, the second end; AS_NO_NODE: none
    uint64_t address; // of the first word
    uint64_t count;   // elements; blocks of a deque
    uint32_t place;   // of a deque's first block in the array
};

struct as_anchors {
    const struct as_index *index;
    uint32_t page_size;
    pthread_mutex_t lock; // of the list, while chunks are read
    AS_VEC(struct as_anchor) list;
};

void as_anchors_open(struct as_anchors *a, const struct as_index *x, uint32_t page_size);
void as_anchors_close(struct as_anchors *a);

// As floats: the bits of positive ones are in the order of their values.
#define AS_LEAST_LOAD UINT32_C(0x3c000000) // 1/128
#define AS_MOST_LOAD UINT32_C(0x44000000)  // 512

// May the first five words (0: not known) be a header's? Most words beside pointers are not, and cost no call then.
static inline bool as_anchor_may_be(const uint64_t w[5])
{
    if (w[1] - 1 < UINT64_C(1) << 31) // a load, or a position in a block
        return (uint32_t)w[4] - AS_LEAST_LOAD <= AS_MOST_LOAD - AS_LEAST_LOAD || (w[3] <= w[2] && w[2] < w[4]);
    return w[2] - 1 < 2 || (w[0] <= w[1] && w[1] < w[2] && w[2] <= w[3]);
}

// Notes a header, if the words are one. May be called by several threads. Of more than MOST_ANCHORS the rest is left out.
void as_anchor_match(struct as_anchors *a, uint32_t node, const struct as_beside *b);

// Reads the nodes of containers of one or two: whether they lead back to the header. To be called while the target stands still.
void as_anchors_confirm(struct as_anchors *a, struct as_target *t);
