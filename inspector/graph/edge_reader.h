// SPDX-License-Identifier: MIT
// Reading the edges: each chunk in use once, word by word.
#pragma once

#include "graph/edges.h"
#include "graph/graph_objects.h"
#include "graph/index.h"
#include "graph/patterns.h"
#include "graph/vtables.h"
#include "target/target.h"

// What reads chunks tells more than edges.
struct as_edge_readers {
    struct as_vtables *vtables;       // take the first word of each chunk
    struct as_patterns *patterns;     // take each pointer with what is beside it
    const struct as_objects *objects; // tell which words hold nothing
};

// Reads all chunks in use of a target that stands still, with several threads. The edges are to be settled then. Free them in either
// case. False: AS_NO_MEMORY, also for more edges than as_edges_add takes.
bool as_edges_read(struct as_edges *e, const struct as_index *x, struct as_target *t,
                   const struct as_edge_readers *readers, struct as_error *err);
// Once all patterns are known: takes out the edges from text, and from words that a chunk's owner does not use. These are left
// over from chunks that lay there before. False: AS_NO_MEMORY.
bool as_edges_settle(struct as_edges *e, struct as_patterns *patterns, struct as_error *err);
