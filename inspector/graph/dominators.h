// SPDX-License-Identifier: MIT
// The dominator tree: a chunk's parent is what all ways from the roots to it have in common last. What an owner or a
// chunk retains is its subtree: so much would be free if it went. Weak roots (roots.h), and what they alone lead to,
// own nothing that others lead to. Nor do other roots own an object that the interpreter's lead to
// (interpreter_roots.h): a word that was left over in some library's chunk would otherwise make all of a Python's
// objects several owners'. For the same reason a chunk to which both the interpreter and other roots lead owns no
// object that the interpreter surely holds (interpreter_reach.h).
#pragma once

#include "graph/edges.h"
#include "graph/graph_objects.h"
#include "graph/owners.h"
#include "graph/roots.h"

// Places in the tree are numbered in the order in which a depth-first search meets them: 0 is the root of all, and each place's
// parent has a lower number.
struct as_dominators {
    uint32_t count;   // places
    uint32_t *parent; // of each place; 0 is its own
    uint32_t
        *vertex; // what a place is: an owner (below `owners`), or a node (its number and `owners`); of place 0 nothing
    uint32_t *place;    // of each vertex; 0: nothing leads to it
    uint32_t owners;    // how many
    uint32_t others;    // from this place on, no root of the interpreter leads to what is there
    uint32_t strong;    // from this place on, only weak roots do
    uint64_t *retained; // bytes; NULL until as_dominators_add_up
    uint32_t nodes;
    // The places that lead to place i are in[in_first[i]] to in[in_first[i + 1] - 1]; of a place to which only its parent leads, none.
    // Edges that own nothing are left out.
    uint32_t *in_first, *in;
    uint64_t predecessors; // how many are in `in`
};

// Makes the tree. Its room is that of the edges, which it takes: nobody needs them after it. Free it in either case. False: AS_NO_MEMORY.
bool as_dominators_find(struct as_dominators *d, struct as_edges *e, const struct as_objects *objects,
                        const struct as_roots *r, const struct as_owners *o, struct as_error *err);
// Fills in what each place retains.
bool as_dominators_add_up(struct as_dominators *d, const struct as_index *x, struct as_error *err);
void as_dominators_free(struct as_dominators *d);

// What no owner retains alone: which owners lead to how much of it.
enum { AS_MOST_LEADING = 64 };

struct as_leading {
    uint32_t owner; // index in the owners' list
    uint64_t bytes; // that are free only if this owner goes, too
};

struct as_several {
    uint64_t bytes;  // that have several owners
    uint32_t owners; // how many lead to any of these
    uint32_t asked;  // of these: those that lead to most directly. The others may lead to more by way of these
    struct as_leading leading[AS_MOST_LEADING]; // of those asked, those that lead to most, the most bytes first
    uint32_t count;                             // in `leading`
};

// Finds them, of a tree that has been added up. Nothing to free. False: AS_NO_MEMORY.
bool as_several_find(struct as_several *s, const struct as_dominators *d, struct as_error *err);

// What an interpreter surely holds: its variables lead there, and from there objects and their memory do, whose words it knows. Between the
// variables and the first object there may be chunks of its own, to which no other root leads through chunks; the chunk to which a variable
// itself leads always counts. A word that was left over in a chunk of a library, to which other roots lead, too, would otherwise give all
// objects several owners.
struct as_precise {
    uint64_t *held;   // a bit for each node: surely held. NULL: no interpreter's objects are nodes
    uint64_t *others; // likewise: another strong root leads there, by a way without an object that is surely held
    uint32_t nodes;
};

// Finds what is surely held. The roots must have been united (interpreter_roots.h). Free it in either case. False: AS_NO_MEMORY.
bool as_precise_find(struct as_precise *p, const struct as_edges *e, const struct as_objects *o,
                     const struct as_roots *r, struct as_error *err);
void as_precise_free(struct as_precise *p);

// Is a node an object, or a block, that is surely held? Roots of others own nothing of it.
static inline bool as_precise_has(const struct as_precise *p, const struct as_objects *o, uint32_t node)
{
    return p->held && p->held[node / 64] >> node % 64 & 1 && as_object_counts(o, node);
}

// Does an edge from a node to one that as_precise_has own nothing? No way of those by which that one is surely held has such an edge.
static inline bool as_precise_drops(const struct as_precise *p, uint32_t from)
{
    return (p->others[from / 64] & ~p->held[from / 64]) >> from % 64 & 1;
}
