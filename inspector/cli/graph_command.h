// SPDX-License-Identifier: MIT
// What leaks, owners and why have in common: a snapshot of a target with its graph, and the words for types and owners.
#pragma once

#include "cli/json.h"
#include "cli/open_target.h"
#include "graph/graph.h"
#include "graph/owners.h"
#include "graph/type_tree.h"
#include "graph/types.h"

struct as_graph_snapshot {
    struct as_snapshot snapshot;
    struct as_graph graph;
    struct as_stopped_reader reader;
    struct as_snapshot_more more;
};

// Opens o->target; g->reader may be changed then. Close it in either case. AS_USAGE for a dump, which has no contents of memory.
bool as_graph_snapshot_open(struct as_graph_snapshot *g, const struct as_options *o, struct as_error *err);
// Has the snapshot make a dump's records of the graph; before it is taken. None where there is no malloc of glibc's.
void as_graph_snapshot_add_records(struct as_graph_snapshot *g);
// Opens o->target; with --graph as the two functions above do. Close it in either case: without --graph, it has a graph of nothing.
bool as_graph_snapshot_open_if_asked(struct as_graph_snapshot *g, const struct as_options *o, struct as_error *err);
// Takes the snapshot, with the graph. AS_NO_MALLOC where there is none of glibc's.
bool as_graph_snapshot_take(struct as_graph_snapshot *g, const struct as_options *o, struct as_error *err);
void as_graph_snapshot_close(struct as_graph_snapshot *g);

// Is everything that was read of one instant, and all of it there?
bool as_graph_is_exact(const struct as_graph_snapshot *g);

// Names of types and owners have at most so many bytes.
enum { AS_GRAPH_NAME = 4096 };

// An owner in words for a terminal: "variable app::cache (server+0x4040): app::Cache", "stack of thread 4711 (worker)". Returns `text`.
const char *as_graph_owner_text(struct as_graph_snapshot *g, const struct as_owners *owners, uint32_t owner,
                                char text[AS_GRAPH_NAME]);
// The first lines of every answer in the terminal: whose it is, and what is not exact.
void as_graph_print_head(const struct as_graph_snapshot *g);
// A type for the terminal, of at most `columns` columns: "type not known" where it is not. Returns `text`.
const char *as_graph_type_text(const struct as_graph_snapshot *g, uint32_t type, size_t columns,
                               char text[AS_GRAPH_NAME]);

// The members that begin every answer behind its schema: version, target, exact, graph, warnings.
void as_graph_put_head(struct as_json *j, const struct as_graph_snapshot *g);
// The members "type" (demangled; null: not known) and "evidence".
void as_graph_put_type(struct as_json *j, const struct as_graph_snapshot *g, uint32_t type);
// The address of a node that `why` takes; AS_UNKNOWN for AS_NO_NODE.
uint64_t as_graph_example(const struct as_graph_snapshot *g, uint32_t node);
// The member "owner": an object; null for AS_NO_OWNER. Kind "several" for AS_SEVERAL_OWNERS.
void as_graph_put_owner(struct as_json *j, struct as_graph_snapshot *g, const struct as_owners *owners, uint32_t owner);
