// SPDX-License-Identifier: MIT
// Why a chunk is reached: the shortest way to it from a root.
#pragma once

#include "graph/graph.h"

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
