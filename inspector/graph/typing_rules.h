// SPDX-License-Identifier: MIT
// Which type a chunk may have to which a pointer of a declared type leads, and how sure that is: what typing.c asks of each pointer. Only
// with libdw.
#pragma once

#include "debuginfo/dwarf_types.h"
#include "graph/edges.h"
#include "graph/index.h"
#include "graph/patterns.h"
#include "graph/vtables.h"

// The sizes of chunks, for their types: searched for one by one where few are asked for, and noted of all otherwise.
struct as_typing_sizes {
    const struct as_index *index;
    uint32_t *units; // of each node: its size, in 16 bytes; NULL: few have been asked for so far
    uint32_t asked;  // so many
    bool failed;     // AS_NO_MEMORY
    struct as_error *err;
};

// A node's size, in 16 bytes; 0: as large as no number says, or no chunk.
uint32_t as_typing_units(struct as_typing_sizes *s, uint32_t node);
void as_typing_sizes_free(struct as_typing_sizes *s);

enum {
    AS_TYPING_TYPE = (1 << 24) - 1, // bits of a node's state: its type
    AS_TYPING_UNNAMED = 1 << 24,    // its members are known, but not whether a larger class begins with them
    AS_TYPING_BLOCKED = 1 << 25,    // two types that do not go together
    AS_TYPING_RANK_SHIFT = 26,      // how sure the type is: two bits
    AS_TYPING_ELEMENTS = 1 << 28,   // of a std::vector, which may have room for more
    AS_TYPING_MAP = 1 << 29,        // of a std::deque, of which only a part in the middle may be in use
    AS_TYPING_TABLE = 1 << 30,      // of a hash table of Rust's, of which it is known which buckets are full
};

// How sure a type is. What a weak word leads to may have become something else since.
enum as_typing_rank { AS_RANK_NONE, AS_RANK_WEAK, AS_RANK_NODE, AS_RANK_SURE };

static inline enum as_typing_rank as_typing_rank_of(uint32_t state)
{
    return (enum as_typing_rank)(state >> AS_TYPING_RANK_SHIFT & 3);
}

struct as_typing_rules {
    const struct as_edges *edges;
    const struct as_vtables *vtables;
    const struct as_patterns *patterns;
    struct as_dwarf_index *debug;
    struct as_dwarf_types *types;
    const uint32_t *of_node; // state of each node
    struct as_typing_sizes *sizes;
};

// Bytes of a node's chunk that its owner may use.
uint64_t as_typing_usable(const struct as_typing_rules *r, uint32_t node);
// The state of a node if a pointer to `type` leads to it, with these flags of its slot; 0: it cannot be that.
uint32_t as_typing_judge(struct as_typing_rules *r, uint32_t node, uint32_t type, uint32_t flags);
// Does a type say no more than that it is bytes?
bool as_typing_name_is_bytes(const struct as_dwarf_types *types, uint32_t type);
// Does a chunk's type say more than another that it begins with? Then both are right.
bool as_typing_is_more(struct as_typing_rules *r, uint32_t type, uint32_t part);

// The word of a chunk from which an edge comes.
struct as_typing_word {
    uint32_t slot;            // what its type says of it
    enum as_typing_rank rank; // how sure that is
    bool used;                // it belongs to the object
    bool stale;               // or may be left over there
    bool far;                 // it lies farther behind the chunk's beginning than an edge says
};

// How sure is what edge `i` of a node of that state leads to?
struct as_typing_word as_typing_read(struct as_typing_rules *r, uint32_t node, uint32_t state, uint32_t i);
// Is edge `i` of a node the pointer of its first element to the next chunk of the same type and size, as blocks of a pool have it? Then it is
// in use, whatever lies behind the element.
bool as_typing_is_chain(const struct as_typing_rules *r, uint32_t node, uint32_t state, uint32_t i);
// An array may be larger than what is in use of it, and the rest is what lay there before. If any of its words leads to what it cannot
// lead to, nobody knows which are in use. What malloc may have given beyond what was asked for says nothing of the others.
bool as_typing_is_doubtful(struct as_typing_rules *r, uint32_t node, uint32_t state);
// Does a chunk resemble what a word leads to that may be out of use (`stale`), or lies in such an object?
bool as_typing_is_plausible(struct as_typing_rules *r, uint32_t node, uint32_t state, bool stale);
