// SPDX-License-Identifier: MIT
// The edges of the graph: each word of a chunk in use that leads to another chunk in use. There are more of them than of anything else,
// so they are packed: 2 bytes for an edge that leads to a near node, and a byte and a third for each node.
#pragma once

#include "base/error.h"
#include "base/vec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    AS_PLACE_FAR = (1 << 30) - 1, // that word, or one behind it: 8 GiB behind what malloc returned
    AS_PLACES_APART =
        16, // from this word of a chunk on, words that follow each other and lead to one node are one edge: the first
    AS_EDGE_SPAN = 12, // nodes
    // An edge has one to four units of 16 bits. Of these, from the lowest bit on: there is more than one; the word leads to what malloc
    // returned, not into the middle; the lowest bits of the place. Then one unit has the distance of the node that it leads to from the
    // node that it belongs to. More than one have a bit that says that they are more than two. Two have a longer distance. More have a
    // bit that says that they are four, the rest of the place, and the number of the node: four have room for the place of any word up
    // to AS_PLACE_FAR, three for one of the first 128 KiB.
    AS_EDGE_IS_LONG = 1 << 0,
    AS_EDGE_BEGINS = 1 << 1,
    AS_EDGE_PLACE = 2, // shifts
    AS_EDGE_NEAR = 6,
    AS_EDGE_IS_FAR = 1 << 6,
    AS_EDGE_MIDDLE = 7,
    AS_EDGE_IS_WIDE = 1 << 7,
    AS_EDGE_MORE_PLACE = 8,
    AS_EDGE_TO = 18,
    AS_EDGE_WIDE_TO = 34,
    AS_EDGE_MOST_TO = 1 << 30,                                                // nodes (AS_MOST_NODES)
    AS_EDGE_PLACES = 1 << (AS_EDGE_NEAR - AS_EDGE_PLACE),                     // places below this one need no more room
    AS_EDGE_NEAR_HALF = 1 << (16 - AS_EDGE_NEAR - 1),                         // distances are counted from the lowest
    AS_EDGE_MIDDLE_HALF = 1 << (32 - AS_EDGE_MIDDLE - 1),                     // likewise
    AS_EDGE_FAR_PLACES = AS_EDGE_PLACES << (AS_EDGE_TO - AS_EDGE_MORE_PLACE), // those below it need no fourth unit
    AS_EDGE_UNITS = 4,                                                        // at most
};

// Where the edges of AS_EDGE_SPAN nodes are that follow each other. Where they have more than 255 units in all, ends[0] is larger than the
// last of these, and `first` is the index in `ends` of the graph from which on it says where the edges of each begin, and where the last
// end.
struct as_edge_span {
    uint32_t first;
    uint8_t ends[AS_EDGE_SPAN]; // counted from `first`
};

// The edges of a node follow each other in the order of the words. An edge is known by the index of its first unit; behind it begins the
// next (as_edge_next). Several words of a chunk that lead to the same chunk one after the other are one edge; words that lead to their own
// chunk are none.
struct as_edges {
    uint32_t nodes;
    AS_VEC(uint16_t) list; // units
    struct as_edge_span *spans;
    AS_VEC(uint32_t) ends;           // of spans with more than 255 units
    uint32_t added;                  // nodes, so far
    uint32_t open[AS_EDGE_SPAN + 1]; // of the last span's nodes: where their edges begin, until all are there
    uint64_t pointers; // how many edges there are; once they are settled, those included that vector_slack.h takes out
    uint64_t unread;   // bytes of heaps that could not be read: chunks in use, and what lies between them
};

// Edges of nodes that follow each other, before they are added to the others.
struct as_edge_batch {
    AS_VEC(uint32_t) firsts; // of each node: how many units are before
    AS_VEC(uint16_t) list;
    uint64_t count; // of edges
};

// No edges yet, of so many nodes. Free them in either case. False: AS_NO_MEMORY.
bool as_edges_open(struct as_edges *e, uint32_t nodes, struct as_error *err);
void as_edges_free(struct as_edges *e);
// Gives the edges' memory back, and keeps their numbers: `pointers` and `unread`.
void as_edges_forget(struct as_edges *e);
// Adds the edges of nodes, of which the first is `node`; those that were left out before it have none. False: AS_NO_MEMORY, also for more
// than 4 billion units.
bool as_edges_add(struct as_edges *e, uint32_t node, const struct as_edge_batch *b, struct as_error *err);
// No more will be added. False: AS_NO_MEMORY.
bool as_edges_close(struct as_edges *e, struct as_error *err);
void as_edge_batch_free(struct as_edge_batch *b);

static inline bool as_edge_span_is_large(const struct as_edge_span *s)
{
    return s->ends[0] > s->ends[AS_EDGE_SPAN - 1];
}

// The edges [first, end) of a node.
struct as_edge_range {
    uint32_t first, end;
};
static inline struct as_edge_range as_edges_of(const struct as_edges *e, uint32_t node)
{
    const struct as_edge_span *s = &e->spans[node / AS_EDGE_SPAN];
    uint32_t at = node % AS_EDGE_SPAN, before = s->ends[at - (at > 0)];
    if (as_edge_span_is_large(s))
        return (struct as_edge_range){e->ends.items[s->first + at], e->ends.items[s->first + at + 1]};
    // Without a jump, which nobody could predict.
    return (struct as_edge_range){s->first + (at > 0 ? before : 0), s->first + s->ends[at]};
}

static inline uint32_t as_edges_first(const struct as_edges *e, uint32_t node)
{
    return as_edges_of(e, node).first;
}

static inline uint32_t as_edges_end(const struct as_edges *e, uint32_t node)
{
    return as_edges_of(e, node).end;
}

// What is to be fetched ahead for a node: first this, and once it is there, its edges. (A function that does no more than fetch is left
// out by GCC 12: it has no effect.)
static inline const void *as_edges_span(const struct as_edges *e, uint32_t node)
{
    return &e->spans[node / AS_EDGE_SPAN];
}

static inline const void *as_edges_begin(const struct as_edges *e, uint32_t node)
{
    return &e->list.items[as_edges_first(e, node)];
}

_Static_assert(AS_PLACE_FAR / AS_EDGE_PLACES < 1 << (AS_EDGE_WIDE_TO - AS_EDGE_MORE_PLACE),
               "four units have room for it");

// All units of an edge, and perhaps of what is behind.
static inline uint64_t as_edge_word(const struct as_edges *e, uint32_t edge)
{
    uint64_t word;
    memcpy(&word, e->list.items + edge, sizeof word);
    return word;
}

// The edge behind an edge, or where the node's edges end.
static inline uint32_t as_edge_next(const struct as_edges *e, uint32_t edge)
{
    uint32_t unit = e->list.items[edge];
    uint32_t far = unit & unit / AS_EDGE_IS_FAR & 1; // without a jump, which nobody could predict
    return edge + 1 + (unit & 1) + far + (far & unit / AS_EDGE_IS_WIDE);
}

// Each edge of a node in turn; `condition`: the loop ends where it does not hold. i_end is where the node's edges end.
#define AS_FOR_EDGES(e, node, i) AS_FOR_EDGES_WHILE(true, e, node, i)
// NOLINTBEGIN(bugprone-macro-parentheses): what is declared has none
#define AS_FOR_EDGES_WHILE(condition, e, node, i)                                                                      \
    for (uint32_t i = as_edges_first(e, node), i##_end = as_edges_end(e, node); i < i##_end && (condition);            \
         i = as_edge_next(e, i))
// NOLINTEND(bugprone-macro-parentheses)

// How many edges there are in [first, end).
static inline uint32_t as_edges_count(const struct as_edges *e, uint32_t first, uint32_t end)
{
    uint32_t count = 0;
    for (uint32_t i = first; i < end; i = as_edge_next(e, i))
        count++;
    return count;
}

// The node that an edge of a node leads to.
static inline uint32_t as_edge_to(const struct as_edges *e, uint32_t node, uint32_t edge)
{
    uint32_t unit = e->list.items[edge];
    if (!(unit & AS_EDGE_IS_LONG))
        return node + (unit >> AS_EDGE_NEAR) - AS_EDGE_NEAR_HALF;
    uint64_t word = as_edge_word(e, edge);
    if (!(unit & AS_EDGE_IS_FAR))
        return node + ((uint32_t)word >> AS_EDGE_MIDDLE) - AS_EDGE_MIDDLE_HALF;
    return (uint32_t)(word >> (unit & AS_EDGE_IS_WIDE ? AS_EDGE_WIDE_TO : AS_EDGE_TO)) & (AS_EDGE_MOST_TO - 1);
}

// Which word of its chunk an edge is, counted from what malloc returned; AS_PLACE_FAR: that one, or one behind it.
static inline uint32_t as_edge_place(const struct as_edges *e, uint32_t edge)
{
    uint32_t unit = e->list.items[edge], place = unit >> AS_EDGE_PLACE & (AS_EDGE_PLACES - 1);
    if ((unit & (AS_EDGE_IS_LONG | AS_EDGE_IS_FAR)) != (AS_EDGE_IS_LONG | AS_EDGE_IS_FAR))
        return place;
    uint32_t places = unit & AS_EDGE_IS_WIDE ? AS_PLACE_FAR + 1 : AS_EDGE_FAR_PLACES;
    return place |
           ((uint32_t)(as_edge_word(e, edge) >> AS_EDGE_MORE_PLACE) & (places / AS_EDGE_PLACES - 1)) * AS_EDGE_PLACES;
}

// Does an edge lead to the beginning of what malloc returned?
static inline bool as_edge_begins(const struct as_edges *e, uint32_t edge)
{
    return e->list.items[edge] & AS_EDGE_BEGINS;
}

// The edge of the word at `place` of a node; AS_NO_EDGE: it leads to no chunk, or an earlier word leads to the same one (from
// AS_PLACES_APART on).
#define AS_NO_EDGE UINT32_MAX
static inline uint32_t as_edge_of(const struct as_edges *e, uint32_t node, uint32_t place)
{
    uint32_t end = as_edges_end(e, node);
    for (uint32_t i = as_edges_first(e, node); i < end && as_edge_place(e, i) <= place; i = as_edge_next(e, i))
        if (as_edge_place(e, i) == place)
            return i;
    return AS_NO_EDGE;
}

// The chunk that the word at `place` of a node leads to the beginning of; UINT32_MAX: none.
static inline uint32_t as_edge_link(const struct as_edges *e, uint32_t node, uint32_t place)
{
    uint32_t edge = as_edge_of(e, node, place);
    return edge != AS_NO_EDGE && as_edge_begins(e, edge) ? as_edge_to(e, node, edge) : UINT32_MAX;
}

// Begins the next node of a batch.
static inline bool as_edge_batch_begin(struct as_edge_batch *b, struct as_error *err)
{
    if (b->firsts.count == b->firsts.capacity && !as_vec_reserve(&b->firsts, 1, err))
        return false;
    b->firsts.items[b->firsts.count++] = (uint32_t)b->list.count;
    return true;
}

// Adds an edge of `node`, the last of a batch.
static inline bool as_edge_batch_add(struct as_edge_batch *b, uint32_t node, uint32_t to, uint64_t place, bool begins,
                                     struct as_error *err)
{
    if (b->list.capacity - b->list.count < AS_EDGE_UNITS && !as_vec_reserve(&b->list, AS_EDGE_UNITS, err))
        return false;
    uint16_t *units = b->list.items + b->list.count;
    uint32_t at = place < AS_PLACE_FAR ? (uint32_t)place : AS_PLACE_FAR, low = at & (AS_EDGE_PLACES - 1);
    uint32_t near = to - node + AS_EDGE_NEAR_HALF, middle = to - node + AS_EDGE_MIDDLE_HALF;
    uint32_t unit = (begins ? AS_EDGE_BEGINS : 0) | low << AS_EDGE_PLACE;
    b->count++;
    if (at == low && near < 2 * AS_EDGE_NEAR_HALF) {
        units[0] = (uint16_t)(unit | near << AS_EDGE_NEAR);
        b->list.count++;
        return true;
    }
    bool far = at != low || middle >= 2 * AS_EDGE_MIDDLE_HALF, wide = at >= AS_EDGE_FAR_PLACES;
    uint64_t word = unit | AS_EDGE_IS_LONG;
    if (far)
        word |= AS_EDGE_IS_FAR | (wide ? AS_EDGE_IS_WIDE : 0) | (uint64_t)(at / AS_EDGE_PLACES) << AS_EDGE_MORE_PLACE |
                (uint64_t)to << (wide ? AS_EDGE_WIDE_TO : AS_EDGE_TO);
    else
        word |= (uint64_t)(middle << AS_EDGE_MIDDLE);
    size_t count = 2 + far + wide;
    memcpy(units, &word, count * sizeof *units);
    b->list.count += count;
    return true;
}

// Leaves of each node's edges those that `keep` moves to the node's first edge and behind it (as_edge_move). It is asked of each node that
// has edges, [first, end), and says where those that it keeps end. False: AS_NO_MEMORY.
typedef uint32_t as_edge_owner(void *context, struct as_edges *e, uint32_t node, uint32_t first, uint32_t end);
bool as_edges_sieve(struct as_edges *e, as_edge_owner *keep, void *context, struct as_error *err);
// An edge of a node takes the place of what is at `to`, before it or its own. Returns where it ends there.
uint32_t as_edge_move(struct as_edges *e, uint32_t edge, uint32_t to);
