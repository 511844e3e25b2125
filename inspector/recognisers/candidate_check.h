// SPDX-License-Identifier: MIT
// What proves the structures of well-known libraries (candidates.h).
#pragma once

#include "graph/recogniser.h"

#define AS_PROOF_BYTES (UINT64_C(64) << 20) // that are read at most for tables of hashes, and for names

struct as_proof {
    struct as_patterns *patterns;
    struct as_target *target;
    uint64_t room; // bytes that may still be read
    bool java;     // HotSpot is there, whose arenas' chunks begin as MariaDB's blocks do
};

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

static inline bool as_proof_is_code(struct as_target *t, uint64_t address)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    return m && m->prot & AS_PROT_EXEC;
}

// Has the target mapped a file whose path contains `name`, as in "/libcrypto.so"?
bool as_proof_has_library(const struct as_target *t, const char *name);

// Proves what glibc's getaddrinfo returns, at `address`.
void as_prove_addrinfo(const struct as_proof *p, uint64_t address, uint32_t node);
// Both prove zlib's state at `address`, which is the memory of `node`.
void as_prove_deflate(const struct as_proof *p, uint64_t address, uint32_t node);
void as_prove_inflate(const struct as_proof *p, uint64_t address, uint32_t node);
// Proves a table of Rust's standard library: a word at `address` leads to the control bytes in a node.
void as_prove_swiss(struct as_proof *p, uint64_t address, uint32_t node);
// Proves a table of glib's: a word at `address` leads to the keys.
void as_prove_glib(const struct as_proof *p, uint64_t address);

// Proves what was noted, and gives the chunks a shape.
bool as_claims_find(const struct as_recogniser_input *in);
