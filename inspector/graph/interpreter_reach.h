// SPDX-License-Identifier: MIT
// What an interpreter surely holds: its variables lead there, and from there objects and their memory do, whose words it knows. Between the
// variables and the first object there may be chunks of its own, to which no other root leads through chunks; the chunk to which a variable
// itself leads always counts. A word that was left over in a chunk of a library, to which other roots lead, too, would otherwise give all
// objects several owners.
#pragma once

#include "graph/edges.h"
#include "graph/graph_objects.h"
#include "graph/roots.h"

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
