// SPDX-License-Identifier: MIT
// The nodes of the graph, and the node that an address leads to.
//
// A node is an interval of a heap: a chunk in use, or a gap (everything between two chunks in use, and what lies behind the last).
// Nodes are numbered by address. The numbers need no table of addresses: a bit for each 16 bytes says where a node begins, and each
// word of bits knows how many nodes begin before it. Objects of a runtime may begin 8 bytes later: each node has a bit for that.
// A large anonymous mapping that the program made is one node, too (mapped.h).
#pragma once

#include "base/align.h"
#include "base/error.h"
#include "base/vec.h"
#include "malloc/chunk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    AS_LEAF_SHIFT = 16, // a leaf is about 64 KiB of address space
    AS_LEAF_WORDS = 64, // of 64 bits, each for 16 bytes
    AS_WORD_SHIFT = 10,
    AS_UNIT_SHIFT = 4,
    AS_SMALLEST_PAGE = 4096,
    AS_LATE = 8,
};
#define AS_NO_NODE UINT32_MAX
#define AS_MOST_NODES (UINT32_C(1) << 30) // an edge of three units has 30 bits for its target (edges.h)

struct as_leaf_word {
    uint64_t starts; // bit i: a node begins at the i-th 16 bytes
    uint32_t before; // how many nodes begin before all of these
};

struct as_leaf {
    struct as_leaf_word words[AS_LEAF_WORDS];
};

// A part of the address space in which heaps lie close to each other.
struct as_cluster {
    uint64_t start, size;
    uint32_t *leaves; // one for each 64 KiB: index of its leaf; 0: no heap is there
};

// Boundaries that follow each other without interruption: one heap.
struct as_extent {
    uint64_t start, end;
};

// Memory that is one node, and no chunk.
struct as_mapped {
    uint64_t begin;      // where the node does, as a chunk does with its header
    uint64_t start, end; // of the memory
    uint64_t bytes;      // that are resident in it
    uint32_t mapping;    // index in the target's mappings
    uint32_t node;
};
typedef AS_VEC(struct as_mapped) as_mapped_vec;

struct as_index {
    uint64_t low, size;                 // all clusters lie in [low, low + size)
    AS_VEC(struct as_cluster) clusters; // by address
    AS_VEC(struct as_leaf) leaves;      // [0] is not used
    AS_VEC(struct as_extent) extents;   // by address
    uint32_t count;                     // of nodes
    uint64_t *gaps;                     // a bit for each node: it is a gap
    uint64_t *late;                     // a bit for each node: it begins AS_LATE behind its 16 bytes; NULL: none does
    uint32_t chunks;                    // nodes that are none
    uint64_t chunk_bytes;               // in them, headers included; of mapped memory, what is resident
    as_mapped_vec mapped;               // by address
    uint64_t *is_mapped;                // a bit for each node: it is mapped memory; NULL: none is
};

// Makes the index of what a walk has collected (as_stopped_reader); of objects, the boundaries may also be odd multiples of AS_LATE, if
// no two lie in the same 16 bytes. Free it in either case. False: AS_NO_MEMORY, also for more than a
// billion nodes.
// `mapped`: memory of which the boundaries have one node each, by address; it becomes the index's. NULL: there is none.
bool as_index_build(struct as_index *x, const uint64_t *boundaries, size_t count, as_mapped_vec *mapped,
                    struct as_error *err);
void as_index_free(struct as_index *x);

// How many bits are set. Written out, because x86-64 in general has no instruction for it, and libgcc's function takes a call.
static inline uint32_t as_count_bits(uint64_t bits)
{
    bits -= bits >> 1 & UINT64_C(0x5555555555555555);
    bits = (bits & UINT64_C(0x3333333333333333)) + (bits >> 2 & UINT64_C(0x3333333333333333));
    bits = (bits + (bits >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
    return (uint32_t)(bits * UINT64_C(0x0101010101010101) >> 56);
}

static inline const struct as_leaf_word *as_index_word(const struct as_index *x, uint64_t address)
{
    if (address - x->low >= x->size)
        return NULL;
    for (size_t i = 0; i < x->clusters.count; i++) {
        const struct as_cluster *c = &x->clusters.items[i];
        if (address - c->start >= c->size)
            continue;
        uint32_t leaf = c->leaves[(address - c->start) >> AS_LEAF_SHIFT];
        return leaf == 0 ? NULL : &x->leaves.items[leaf].words[address >> AS_WORD_SHIFT & (AS_LEAF_WORDS - 1)];
    }
    return NULL;
}

static inline bool as_index_is_gap(const struct as_index *x, uint32_t node)
{
    return x->gaps[node / 64] >> node % 64 & 1;
}

static inline bool as_index_is_late(const struct as_index *x, uint32_t node)
{
    return x->late && x->late[node / 64] >> node % 64 & 1;
}

static inline bool as_index_is_mapped(const struct as_index *x, uint32_t node)
{
    return x->is_mapped && x->is_mapped[node / 64] >> node % 64 & 1;
}

// Mapped memory by its node.
static inline const struct as_mapped *as_index_mapped_of(const struct as_index *x, uint32_t node)
{
    return &x->mapped.items[AS_PARTITION_POINT(1, x->mapped.count, i, x->mapped.items[i].node <= node) - 1];
}

// Returns how many bytes of all mapped memory are resident.
static inline uint64_t as_index_mapped_bytes(const struct as_index *x)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < x->mapped.count; i++)
        bytes += x->mapped.items[i].bytes;
    return bytes;
}

// The node in which an address lies, AS_NO_NODE if it lies in none. `word`: the address's. *begins: it begins at the address.
static inline uint32_t as_index_in_word(const struct as_index *x, const struct as_leaf_word *word, uint64_t address,
                                        bool *begins)
{
    unsigned bit = address >> AS_UNIT_SHIFT & 63;
    // Where no node begins before the address, this wraps round to AS_NO_NODE.
    uint32_t node = word->before + as_count_bits(word->starts & (UINT64_MAX >> (63 - bit))) - 1;
    *begins = word->starts >> bit & 1 && address % AS_ALIGNMENT == 0;
    if (x->late && word->starts >> bit & 1 && as_index_is_late(x, node)) {
        *begins = address % AS_ALIGNMENT == AS_LATE;
        return address & AS_LATE ? node : node - 1;
    }
    return node;
}

static inline uint32_t as_index_at(const struct as_index *x, uint64_t address)
{
    const struct as_leaf_word *word = as_index_word(x, address);
    bool begins;
    return word ? as_index_in_word(x, word, address, &begins) : AS_NO_NODE;
}

// The node that begins at an address, AS_NO_NODE if none does.
static inline uint32_t as_index_node_at(const struct as_index *x, uint64_t address)
{
    const struct as_leaf_word *word = as_index_word(x, address);
    bool begins = false;
    uint32_t node = word ? as_index_in_word(x, word, address, &begins) : AS_NO_NODE;
    return begins ? node : AS_NO_NODE;
}

// Does an address lie behind a heap's last chunk, when the word before it does not?
bool as_index_is_behind(const struct as_index *x, uint64_t address);
// The mapped memory whose first bytes a pointer leads to, where what lies right before it belongs to a heap; else AS_NO_NODE.
uint32_t as_index_mapped_at(const struct as_index *x, uint64_t pointer, bool *begins);

// The chunk in use that a pointer leads to, AS_NO_NODE if there is none. A pointer may lead to any byte of a chunk that its owner may
// use, and to the byte behind the last: an end of an array is not the next chunk's beginning, as that is behind its header. But
// behind a chunk with a mapping of its own begins somebody else's mapping. *begins: it is what malloc returned.
static inline uint32_t as_index_pointer(const struct as_index *x, uint64_t pointer, bool *begins)
{
    const struct as_leaf_word *word = as_index_word(x, pointer - AS_HEADER);
    if (!word)
        return AS_NO_NODE;
    uint32_t node = as_index_in_word(x, word, pointer - AS_HEADER, begins);
    bool page_begins = (pointer & (AS_SMALLEST_PAGE - 1)) < AS_HEADER;
    if (node == AS_NO_NODE || as_index_is_gap(x, node) || (page_begins && as_index_is_behind(x, pointer)))
        return page_begins && x->is_mapped ? as_index_mapped_at(x, pointer, begins) : AS_NO_NODE;
    return node;
}

static inline uint32_t as_index_target(const struct as_index *x, uint64_t pointer)
{
    bool begins;
    return as_index_pointer(x, pointer, &begins);
}

#define AS_LEAST_MMAPPED (128 << 10) // bytes: from there on, malloc gives a chunk a mapping of its own by default

// Was the chunk at `chunk`, which is the node, made for `request` bytes? malloc rounds up, and leaves what is too little for another
// chunk with it. *usable: how many bytes its owner may use; of a mapping of its own, `request`.
static inline bool as_index_is_made_for(const struct as_index *x, uint32_t node, uint64_t chunk, uint64_t request,
                                        uint32_t page_size, uint64_t *usable)
{
    uint64_t size = as_align_up(request + sizeof(uint64_t), AS_ALIGNMENT);
    size = size < AS_MIN_CHUNK ? AS_MIN_CHUNK : size;
    *usable = size - sizeof(uint64_t);
    if (as_index_node_at(x, chunk + size) == node + 1)
        return true;
    *usable += AS_ALIGNMENT;
    if (as_index_node_at(x, chunk + size + AS_ALIGNMENT) == node + 1)
        return true;
    *usable = request; // nobody needs to know what is spare there
    // A chunk of a heap may end with a page by chance. One with a mapping of its own begins with a page, unless it is aligned.
    if ((chunk & (page_size - 1)) != 0 && request < AS_LEAST_MMAPPED)
        return false;
    // From glibc 2.43 on, 16 bytes behind the chunk belong to its mapping, too (MMAP_EXTRA of malloc.c).
    return as_index_node_at(x, as_align_up(chunk + request + sizeof(uint64_t), page_size)) == node + 1 ||
           as_index_node_at(x, as_align_up(chunk + size + AS_HEADER, page_size) - AS_HEADER) == node + 1;
}

// The address at which a node begins (of a chunk: its header's); AS_UNKNOWN for a number of no node. Slow: a search.
uint64_t as_index_address(const struct as_index *x, uint32_t node);

// Goes through the nodes that begin in [from, to) by address. Both lie in one extent.
struct as_node_cursor {
    const struct as_index *index;
    uint64_t address, end; // where the bits not yet seen begin
    const struct as_leaf_word *word;
    uint64_t bits;
    uint32_t node;
};
struct as_node_cursor as_nodes_of(const struct as_index *x, uint64_t from, uint64_t to);
// The next node and where it begins; false: there are no more.
bool as_node_next(struct as_node_cursor *c, uint32_t *node, uint64_t *address);

// Goes through all chunks in use by address.
struct as_used_chunk {
    uint32_t node;
    uint64_t address, size; // bytes, header included
};
struct as_used_cursor {
    struct as_used_chunk chunk; // that as_used_next() has found
    const struct as_index *index;
    size_t extent; // the next
    struct as_node_cursor nodes;
    uint64_t limit; // the current extent's end
    uint32_t node;  // the one to come; AS_NO_NODE: none
    uint64_t address;
    uint32_t seen; // chunks before this node have been met
};
struct as_used_cursor as_used_begin(const struct as_index *x);
// Likewise, from a node on that is less than the count.
struct as_used_cursor as_used_from(const struct as_index *x, uint32_t node);
bool as_used_next(struct as_used_cursor *c);
// Likewise, the next chunks before the node `end`, and how many they are; 0: there are no more. Takes less where all are gone through.
enum { AS_USED_SOME = 64 };
size_t as_used_some(struct as_used_cursor *c, uint32_t end, struct as_used_chunk chunks[AS_USED_SOME]);
// Returns the bytes that it takes: a chunk its size, mapped memory what is resident of it.
static inline uint64_t as_used_bytes(const struct as_index *x, const struct as_used_chunk *chunk)
{
    return as_index_is_mapped(x, chunk->node) ? as_index_mapped_of(x, chunk->node)->bytes : chunk->size;
}
// As as_used_next, only those of which `wanted` is not 0. Where they are few, the others cost next to nothing.
bool as_used_next_of(struct as_used_cursor *c, const uint8_t *wanted);

// The first of the bytes from `at` on that is not 0; `count`: none is.
static inline uint32_t as_next_byte(const uint8_t *bytes, uint32_t at, uint32_t count)
{
    while (at < count && bytes[at] == 0) {
        uint64_t word;
        for (at++; at % sizeof word == 0 && count - at >= sizeof word; at += sizeof word) {
            memcpy(&word, bytes + at, sizeof word);
            if (word != 0)
                break;
        }
    }
    return at;
}
