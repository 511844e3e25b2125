// SPDX-License-Identifier: MIT
// The edges of the graph: each word of a chunk in use that leads to another chunk in use.
#pragma once

#include "graph/index.h"
#include "graph/objects.h"
#include "graph/patterns.h"
#include "graph/vtables.h"
#include "target/target.h"

// The edges of node i are to[first[i]] to to[first[i + 1] - 1], in the order of the words. Several words of a chunk that lead to the
// same chunk one after the other are one edge; words that lead to their own chunk are none.
struct as_edges {
    uint32_t *first; // count + 1
    uint32_t nodes;  // count
    AS_VEC(uint32_t) to;
    AS_VEC(uint16_t)
    place;             // parallel to `to`: which word of its chunk an edge is, and what it leads to (as_edge_place)
    uint64_t pointers; // how many edges there are once they are settled, those included that unused.h takes out
    uint64_t unread;   // bytes of heaps that could not be read: chunks in use, and what lies between them
};

enum {
    AS_PLACE_FAR = 0x7fff,    // that word, or one behind it
    AS_PLACE_BEGINS = 0x8000, // the word leads to what malloc returned, not into the middle
    AS_PLACES_APART =
        16, // from this word of a chunk on, words that follow each other and lead to one node are one edge: the first
};

// Which word of its chunk an edge is, counted from what malloc returned; AS_PLACE_FAR: that one, or one behind it.
static inline uint32_t as_edge_place(const struct as_edges *e, uint32_t edge)
{
    return e->place.items[edge] & AS_PLACE_FAR;
}

// Does an edge lead to the beginning of what malloc returned?
static inline bool as_edge_begins(const struct as_edges *e, uint32_t edge)
{
    return e->place.items[edge] & AS_PLACE_BEGINS;
}

// What reads chunks tells more than edges.
struct as_edge_readers {
    struct as_vtables *vtables;       // take the first word of each chunk
    struct as_patterns *patterns;     // take each pointer with what is beside it
    const struct as_objects *objects; // tell which words hold nothing
};

// Reads all chunks in use of a target that stands still, with several threads. The edges are to be settled then. Free them in either
// case. False: AS_NO_MEMORY, also for more than 4 billion edges.
bool as_edges_read(struct as_edges *e, const struct as_index *x, struct as_target *t,
                   const struct as_edge_readers *readers, struct as_error *err);
// Once all patterns are known: takes out the edges from text, and from words that a chunk's owner does not use. These are left
// over from chunks that lay there before.
void as_edges_settle(struct as_edges *e, const struct as_patterns *patterns);
void as_edges_free(struct as_edges *e);
