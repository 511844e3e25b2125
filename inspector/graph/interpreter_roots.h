// SPDX-License-Identifier: MIT
// A CPython's own roots as one owner: the variables of its program or library, and words of threads that lead to its own structures.
// Nearly everything that Python code holds is reached from several of these, so that none of them alone would own it. Its stacks of
// frames, which are outside of all heaps from 3.11 on, are an owner that is weak: words that were left over in them lead anywhere.
#pragma once

#include "graph/edges.h"
#include "graph/graph_objects.h"
#include "graph/roots.h"

struct as_interpreter {
    uint32_t module; // of `type`; UINT32_MAX: there is no interpreter, or its module is not known
};

// Finds it in a target that stands still, and gives the roots in its stacks of frames sources of their own. False: AS_NO_MEMORY.
bool as_interpreter_find(struct as_interpreter *i, struct as_roots *r, const struct as_objects *o, struct as_target *t,
                         struct as_error *err);
// Puts its roots behind all others, and marks them as one owner's (as_root.united). False: AS_NO_MEMORY.
bool as_interpreter_unite(const struct as_interpreter *i, struct as_roots *r, const struct as_objects *o,
                          const struct as_edges *e, const struct as_index *x, struct as_error *err);
