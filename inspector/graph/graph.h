// SPDX-License-Identifier: MIT
// Who leads to whom: the chunks in use of a target, the pointers between them, and the words outside that lead to them.
#pragma once

#include "debuginfo/dwarf_files.h"
#include "graph/edges.h"
#include "graph/graph_objects.h"
#include "graph/index.h"
#include "graph/interpreter_roots.h"
#include "graph/recogniser.h"
#include "graph/roots.h"
#include "graph/tls.h"
#include "graph/typing.h"
#include "graph/vtables.h"
#include "snapshot/snapshot_options.h"

struct as_graph {
    // As long as the target is open:
    struct as_modules modules;
    struct as_dwarf_files files; // none if it is not wanted
    const struct as_recogniser *recognisers;
    // What holds at one instant:
    struct as_objects objects;
    struct as_index index;
    struct as_edges edges;
    struct as_roots roots;
    struct as_tls tls;
    struct as_interpreter interpreter;
    struct as_vtables vtables;
    struct as_patterns patterns;
    struct as_typing typing; // by debug information, once as_graph_find_types has been called
};

// Finds the target's modules, and opens their debug information if it is wanted: files are opened, so before the target is stopped.
// `recognisers`: stay where they are. False: AS_NO_MEMORY. Free it in either case.
bool as_graph_open(struct as_graph *g, struct as_target *t, const struct as_recogniser *recognisers, bool debug_info,
                   struct as_error *err);
// Begins to read the debug information, on a thread of its own: as_snapshot_options.reader, with a graph as its context.
void as_graph_begin(void *graph);
// Reads the graph at the instant of a snapshot: as_snapshot_options.reader, with a graph as its context.
bool as_graph_read(void *graph, struct as_target *t, const struct as_malloc *m, const struct as_store *s,
                   as_boundary_vec *boundaries, struct as_error *err);
// Makes the interpreter's roots one owner (interpreter_roots.h), and the objects that nothing leads to another
// (AS_ROOT_UNREACHED): before the owners are found. False: AS_NO_MEMORY.
bool as_graph_settle_objects(struct as_graph *g, struct as_error *err);
// Was everything read, and of one instant? What the snapshot itself says of its exactness is to be asked besides.
bool as_graph_is_whole(const struct as_graph *g);
// Finds the types that the graph itself tells (shapes.h), of the nodes of which `only` is not 0, or of all (NULL). The target may run
// on. False: AS_NO_MEMORY.
bool as_graph_find_shapes(struct as_graph *g, const uint8_t *only, struct as_error *err);
// Finds the chunks' types by debug information, if it was opened: of all, or (`only`) of those that are lost (as_typing_input). After the
// snapshot, when the target runs on. False: AS_NO_MEMORY.
bool as_graph_find_types(struct as_graph *g, const uint8_t *only, struct as_error *err);
// Both of all nodes, at once.
bool as_graph_find_all_types(struct as_graph *g, struct as_error *err);
void as_graph_free(struct as_graph *g);
