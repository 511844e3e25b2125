// SPDX-License-Identifier: MIT
// Large anonymous mappings that a program made by itself, as nodes of the graph: who holds them is asked as of a chunk.
#pragma once

#include "graph/edges.h"
#include "graph/index.h"
#include "graph/roots.h"

enum {
    AS_LEAST_MAPPED = 128 << 10, // bytes that are resident: what has less is searched as a root
    AS_MOST_MAPPED = 4096,       // of these; the others are roots
};
#define AS_LARGEST_MAPPED (UINT64_C(16) << 30) // bytes of addresses, likewise

// Finds the anonymous memory of a target that stands still which is no allocator's, no module's, no thread's, and that a clone has. None
// in a process with a CPython, whose frames lie in such memory. Adds the boundaries of each, and keeps it out of the roots. False:
// AS_NO_MEMORY. Free the list in either case.
bool as_mapped_find(as_mapped_vec *found, struct as_roots_plan *p, const struct as_objects *o,
                    as_boundary_vec *boundaries, struct as_error *err);

// Makes roots of those that no root leads to, or only one that is weak: nobody can tell that a program has forgotten them. Once the edges
// are settled. False: AS_NO_MEMORY.
bool as_mapped_roots(struct as_roots *r, const struct as_index *x, const struct as_edges *e, struct as_error *err);
