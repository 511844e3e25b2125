// SPDX-License-Identifier: MIT
// A graph as the records of a dump: types, owners, leaks, and what keeps pages. Sums and names, no contents of memory.
#pragma once

#include "graph/graph.h"
#include "model/store.h"

// Fills in the store's graph and graph_*, once the target runs on. `s` has the heaps and pages of the same snapshot, `t` its threads.
// False: AS_NO_MEMORY.
bool as_graph_add_records(struct as_store *s, struct as_graph *g, const struct as_target *t, struct as_error *err);
