// SPDX-License-Identifier: MIT
#include "recognisers/hash_chains.h"

// May the node be in a chain?
static bool may_be_in_chain(const struct as_chains *c, uint32_t node)
{
    if (node == AS_NO_NODE || *c->steps == 0)
        return false;
    --*c->steps;
    return c->bytes == 0 ||
           as_proof_is_made_for(c->proof, as_index_address(c->proof->patterns->index, node) + AS_HEADER, c->bytes);
}

bool as_chains_visit(const struct as_chains *c, uint32_t table, uint64_t count, as_chain_each *each, void *context)
{
    const struct as_edges *e = c->edges;
    uint64_t found = 0;
    AS_FOR_EDGES_WHILE(as_edge_place(e, i) < c->buckets, e, table, i) {
        uint32_t node = as_edge_begins(e, i) ? as_edge_to(e, table, i) : AS_NO_NODE;
        if (node == AS_NO_NODE)
            return false;
        for (; node != c->end; node = as_edge_link(e, node, c->next)) {
            if (++found > count || !may_be_in_chain(c, node))
                return false;
            if (each)
                each(context, node);
        }
    }
    return found == count;
}

struct chain_naming {
    const struct as_proof *proof;
    enum as_shape shape;
};

static void name_node(void *naming, uint32_t node)
{
    const struct chain_naming *n = naming;
    as_proof_give(n->proof, node, n->shape);
}

bool as_chains_prove(const struct as_chains *c, uint32_t table, uint64_t count, enum as_shape shape)
{
    struct as_chains again = *c;
    struct chain_naming naming = {c->proof, shape};
    uint64_t counted = count;
    again.bytes = 0;
    again.steps = &counted;
    return as_chains_visit(c, table, count, NULL, NULL) && as_chains_visit(&again, table, count, name_node, &naming);
}
