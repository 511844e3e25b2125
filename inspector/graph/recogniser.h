// SPDX-License-Identifier: MIT
// What finds the structures of a well-known library, and gives their chunks shapes: one interface for all of them. Who opens a graph
// hands over the table of those that it wants.
#pragma once

#include "graph/edges.h"
#include "graph/patterns.h"
#include "graph/roots.h"
#include "graph/tls.h"
#include "graph/vtables.h"

// What a recogniser sees: a graph whose edges are settled, of a target that stands still.
struct as_recogniser_input {
    struct as_patterns *patterns; // has the shapes
    const struct as_edges *edges;
    const struct as_roots *roots;
    const struct as_modules *modules;
    const struct as_tls *tls;
    struct as_vtables *vtables;
    struct as_target *target;
    struct as_error *err; // of what `find` fails with
};

struct as_recogniser {
    const char *name; // NULL: the table ends
    // Finds them. What there is no memory for has no shape. False: AS_NO_MEMORY, without which nothing else is right either.
    bool (*find)(const struct as_recogniser_input *in);
};
