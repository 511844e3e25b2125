// SPDX-License-Identifier: MIT
// Who leads to whom: the chunks in use of a target, the pointers between them, and the words outside that lead to them.
#pragma once

#include "debuginfo/dwarf_files.h"
#include "graph/edges.h"
#include "graph/graph_objects.h"
#include "graph/index.h"
#include "graph/recogniser.h"
#include "graph/roots.h"
#include "graph/tls.h"
#include "graph/typing.h"
#include "graph/vtables.h"
#include "model/store.h"
#include "profile/growth.h"
#include "snapshot/snapshot_options.h"

// A CPython's own roots as one owner: the variables of its program or library, and words of threads that lead to its own structures.
// Nearly everything that Python code holds is reached from several of these, so that none of them alone would own it. Its stacks of
// frames, which are outside of all heaps from 3.11 on, are an owner that is weak: words that were left over in them lead anywhere.
struct as_interpreter {
    uint32_t module; // of `type`; UINT32_MAX: there is no interpreter, or its module is not known
};

// Finds it in a target that stands still, and gives the roots in its stacks of frames sources of their own. False: AS_NO_MEMORY.
bool as_interpreter_find(struct as_interpreter *i, struct as_roots *r, const struct as_objects *o, struct as_target *t,
                         struct as_error *err);
// Puts its roots behind all others, and marks them as one owner's (as_root.united). False: AS_NO_MEMORY.
bool as_interpreter_unite(const struct as_interpreter *i, struct as_roots *r, const struct as_objects *o,
                          const struct as_edges *e, const struct as_index *x, struct as_error *err);

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

// Why a chunk is reached: the shortest way to it from a root.
struct as_step {
    uint32_t node;
    uint64_t address, size; // of the chunk: what malloc returned, and its bytes with the header
    uint64_t offset;   // where in it (behind `address`) the pointer to the next step is; AS_UNKNOWN: not found again
    uint64_t leads_to; // where in the next step's chunk that pointer leads; AS_UNKNOWN likewise. Of the last step: 0
};

struct as_way {
    AS_VEC(struct as_step) steps; // from the root to the chunk; none: the address lies in no chunk in use
    uint32_t root;                // index in the roots' list; AS_NO_NODE: nothing leads to the chunk, the only step
    uint64_t leads_to;            // where in the first step's chunk the root's word leads; AS_UNKNOWN: not found again
};

// Finds the way to the chunk in use in which `address` lies: from a root that is not weak, if there is any. To be
// called while the target stands still. Free it in either case. False: AS_NO_MEMORY.
bool as_way_find(struct as_way *p, const struct as_graph *g, struct as_target *t, uint64_t address,
                 struct as_error *err);
void as_way_free(struct as_way *p);

// Words in the room that an array has behind its end and does not use: most are left over. Nobody can tell, as some programs begin an
// array's use at its end. So they are weak, as stacks are: they hold what nothing else holds, and own nothing else.

// Takes out the edges from unused room to chunks that roots reach without any of these: owners, dominators and ways are found without
// them. What is reached, and what is lost, stays the same. To be called after types are found. False: AS_NO_MEMORY.
bool as_graph_leave_unused(struct as_graph *g, struct as_error *err);

// A graph as the records of a dump: types, owners, leaks, and what keeps pages. Sums and names, no contents of memory.

// Fills in the store's graph and graph_*, once the target runs on. `s` has the heaps and pages of the same snapshot, `t` its threads.
// Where a profile began with types (`baseline`; NULL: not known), also its profile_types; `noted`: as_profile_note_chunks. False:
// AS_NO_MEMORY.
bool as_graph_add_records(struct as_store *s, struct as_graph *g, const struct as_target *t,
                          const struct as_profile_baseline *baseline, const as_boundary_vec *noted,
                          struct as_error *err);
// Fills in the store's graph_types alone, without what they retain. False: AS_NO_MEMORY.
bool as_graph_add_types(struct as_store *s, const struct as_graph *g, struct as_error *err);
