// SPDX-License-Identifier: MIT
// The dominator tree by types: chunks of one type below the same branch are one branch.
#pragma once

#include "graph/dominators.h"
#include "graph/graph.h"

#define AS_NO_OWNER UINT32_MAX
#define AS_SEVERAL_OWNERS (UINT32_MAX - 1) // none of them alone keeps the chunks

enum { AS_TREE_DEPTH = 12 }; // of types below an owner; what lies deeper counts there

struct as_branch {
    uint32_t parent; // index; 0 for owners, and of the trunk
    uint32_t owner;  // of a branch right at the trunk: index in the owners, or AS_SEVERAL_OWNERS; else AS_NO_OWNER
    uint32_t type;   // of its chunks, as_graph_type
    uint32_t depth;
    uint32_t example;      // node: the first of its chunks; AS_NO_NODE for an owner
    uint64_t count, bytes; // chunks, and what they take themselves
    uint64_t retained;     // bytes: with all that would be free with them
};

struct as_tree {
    AS_VEC(struct as_branch) branches; // [0] is the trunk; a parent lies before its children
    uint64_t unreached;                // bytes of chunks that no owner leads to
};

// Makes it of a dominator tree that has been added up. Free it in either case. False: AS_NO_MEMORY.
bool as_tree_grow(struct as_tree *tree, const struct as_graph *g, const struct as_dominators *d, struct as_error *err);
void as_tree_free(struct as_tree *tree);

// The branches but the trunk, each behind the one that it hangs on; of those that hang on one, those that retain most first.
struct as_tree_order {
    uint32_t *branches; // indexes
    uint32_t count;
};
// False: AS_NO_MEMORY. Free it in either case.
bool as_tree_sort(struct as_tree_order *order, const struct as_tree *tree, struct as_error *err);
void as_tree_order_free(struct as_tree_order *order);
