// SPDX-License-Identifier: MIT
// What regcomp() has compiled: its numbers say for how many nodes and states the arrays were made. gnulib's copy has the same layout.
#include "recognisers/glibc.h"

enum {
    WORD = AS_GLIBC_WORD,
    LEAST_CHUNK = 240, // bytes
    DFA_WORDS = 18,    // that are read
    TOKEN = 16,        // bytes of a node
    INDEX = 4,         // of a node's number
    SET = 16,          // of a set of nodes
    ENTRY = 16,        // of the table of states
    MOST_NODES = 1 << 24,
};

// Which arrays it has: nodes, next nodes, edges, states. Those of original nodes and of closures may be missing.
static bool has_arrays(const struct as_glibc *g, const struct as_used_chunk *chunk)
{
    static const uint32_t places[] = {0, 3, 5, 8};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (as_edge_link(g->edges, chunk->node, places[i]) == AS_NO_NODE)
            return false;
    return true;
}

void as_glibc_regex_match_at(struct as_glibc *g, const struct as_used_chunk *chunk)
{
    uint64_t w[DFA_WORDS];
    if (chunk->size < LEAST_CHUNK || chunk->size > LEAST_CHUNK + AS_ALIGNMENT || !has_arrays(g, chunk) ||
        !as_glibc_read(g, chunk->address + AS_HEADER, w, sizeof w))
        return;
    uint64_t room = w[1], nodes = w[2], states = (w[16] >> 32) + 1;
    if (nodes == 0 || nodes > room || room > MOST_NODES || (states & (states - 1)) != 0 ||
        !as_proof_is_made_for(&g->proof, w[0], room * TOKEN) || !as_proof_is_made_for(&g->proof, w[3], room * INDEX) ||
        (w[4] != 0 && !as_proof_is_made_for(&g->proof, w[4], room * INDEX)) ||
        !as_proof_is_made_for(&g->proof, w[5], room * SET) || !as_proof_is_made_for(&g->proof, w[8], states * ENTRY))
        return;
    as_glibc_give(g, chunk->node, AS_SHAPE_REGEX);
    as_glibc_give(g, as_proof_node(&g->proof, w[0]), AS_SHAPE_REGEX_NODES);
    as_glibc_give(g, as_proof_node(&g->proof, w[8]), AS_SHAPE_REGEX_STATES);
}
