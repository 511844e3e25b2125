// SPDX-License-Identifier: MIT
// What proofs of structures have in common.
#pragma once

#include "graph/recogniser.h"

// The node of the chunk that begins at `pointer`; AS_NO_NODE: none does.
static inline uint32_t as_proof_node(const struct as_proof *p, uint64_t pointer)
{
    bool begins = false;
    uint32_t node = as_index_pointer(p->patterns->index, pointer, &begins);
    return begins ? node : AS_NO_NODE;
}

// Is there a chunk at `pointer` that was made for so many bytes?
static inline bool as_proof_is_made_for(const struct as_proof *p, uint64_t pointer, uint64_t bytes)
{
    uint64_t usable;
    uint32_t node = as_proof_node(p, pointer);
    return node != AS_NO_NODE &&
           as_index_is_made_for(p->patterns->index, node, pointer - AS_HEADER, bytes, p->patterns->page_size, &usable);
}

static inline void as_proof_give(const struct as_proof *p, uint32_t node, enum as_shape shape)
{
    as_pattern_give(p->patterns, node, shape);
}

// The same for the chunk at `pointer`, if it was made for so many bytes.
static inline void as_proof_give_sized(const struct as_proof *p, uint64_t pointer, uint64_t bytes, enum as_shape shape)
{
    if (as_proof_is_made_for(p, pointer, bytes))
        as_proof_give(p, as_proof_node(p, pointer), shape);
}
