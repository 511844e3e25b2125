// SPDX-License-Identifier: MIT
// Hash tables with chains: an array of pointers to the first nodes, each of which leads to the next one.
#pragma once

#include "graph/edges.h"
#include "recognisers/proof.h"

struct as_chains {
    const struct as_proof *proof;
    const struct as_edges *edges;
    uint64_t
        buckets; // words of the array; malloc may have given it more, in which anything may be left over. All: what was cleared with the array
    uint32_t next;   // which word of a node leads to the next one
    uint32_t end;    // the node to which the last one leads, and a bucket without nodes; AS_NO_NODE: to none
    uint64_t bytes;  // for which each node is made; 0: any size will do
    uint64_t *steps; // that are left: a damaged heap may say that many tables have the same long chain
};
typedef void as_chain_each(void *context, uint32_t node);

// Goes through the chains of the array in node `table`; `each` may be NULL. False: it has more or fewer nodes than `count`, or a chain
// leads elsewhere, or there are no steps left. Then `each` has been called for some.
bool as_chains_visit(const struct as_chains *c, uint32_t table, uint64_t count, as_chain_each *each, void *context);

// Gives all nodes a shape, if there are `count`. False: likewise; then none has it.
bool as_chains_prove(const struct as_chains *c, uint32_t table, uint64_t count, enum as_shape shape);
