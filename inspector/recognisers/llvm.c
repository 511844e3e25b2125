// SPDX-License-Identifier: MIT
// The containers of LLVM (DenseMap, StringMap) and the slabs of its allocator (BumpPtrAllocator): in clang, rustc, Mesa and others.
//
// A DenseMap marks the places of its table that are free; their number follows from the two counts beside the pointer to the table.
// Only where some chunk begins with such a mark, the words beside pointers are read for it.
#include "base/memory.h"
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    HASH = sizeof(uint32_t),
    LEAST_PLACES = 64, // of a DenseMap's table
    LEAST_STRINGS = 16,
    MOST_STRIDE = 8 * WORD, // bytes of a place
    MOST_ITEM = 4096,       // bytes of a string's entry before the text
    WINDOW = 1 << 16,
    BLOCK = 512,                           // words read at a time
    LARGE = LEAST_STRINGS * (WORD + HASH), // bytes of a chunk that may be any of these
    LEAST_SLAB = 512,
    SLABS_ALIKE = 128, // then they are twice as large
    MOST_SHIFT = 30,
    MOST_SLABS = 1 << 20,
    MOST_TRIES = 1 << 22, // of pointers whose neighbours are read
};
#define MOST_PLACES (UINT64_C(1) << 31)

struct llvm {
    struct as_proof proof;
    const struct as_edges *edges;
    uint8_t *large;  // of each node: may it be one?
    uint32_t tries;  // that are left
    uint8_t *window; // what has been read of a chunk, from `start` on
    uint64_t start, known;
};

// How a table marks its places that are free, and those from which something was removed.
struct marks {
    uint64_t mask, free, removed;
};

// The i-th of the places, of `stride` bytes, is counted by its first word. False: it cannot be read.
static bool count_place(struct llvm *l, uint64_t table, uint64_t places, uint64_t stride, const struct marks *m,
                        uint64_t found[2])
{
    uint64_t words[BLOCK], all = places * stride / WORD, step = stride / WORD;
    found[0] = found[1] = 0;
    if (places * stride > l->proof.room)
        return false;
    l->proof.room -= places * stride;
    for (uint64_t at = 0; at < all; at += BLOCK) {
        uint64_t known = all - at < BLOCK ? all - at : BLOCK;
        if (!as_target_read(l->proof.target, table + at * WORD, words, known * WORD))
            return false;
        for (uint64_t i = (step - at % step) % step; i < known; i += step) {
            found[0] += (words[i] & m->mask) == m->free;
            found[1] += (words[i] & m->mask) == m->removed;
        }
    }
    return true;
}

// Behind the pointer: how many places are taken, from how many something was removed, how many there are.
static bool is_dense_map(struct llvm *l, const uint64_t w[3])
{
    static const struct marks all[] = {
        {UINT64_MAX, AS_LLVM_FREE, AS_LLVM_FREE << 1}, // keys are pointers, and numbers of 64 and 32 bits
        {UINT64_MAX, UINT64_MAX, UINT64_MAX - 1},
        {UINT32_MAX, UINT32_MAX, UINT32_MAX - 1},
    };
    uint64_t taken = (uint32_t)w[1], removed = w[1] >> 32, places = (uint32_t)w[2], found[2];
    if (places < LEAST_PLACES || (places & (places - 1)) != 0 || taken + removed >= places)
        return false;
    for (uint64_t stride = WORD; stride <= MOST_STRIDE; stride += WORD)
        for (size_t i = 0; as_proof_is_made_for(&l->proof, w[0], places * stride) && i < sizeof all / sizeof *all; i++)
            if (count_place(l, w[0], places, stride, &all[i], found) && found[1] == removed &&
                found[0] + found[1] + taken == places)
                return true;
    return false;
}

// Behind the pointer: how many places there are and how many are taken; from how many something was removed, and how many bytes of an
// entry are before the text. The last place has a mark, and behind all places are as many hashes.
static bool is_string_map(struct llvm *l, const uint64_t w[3])
{
    static const struct marks marks = {UINT64_MAX, 0, UINT64_MAX << 3};
    uint64_t places = (uint32_t)w[1], taken = w[1] >> 32, removed = (uint32_t)w[2], item = w[2] >> 32, found[2];
    return places >= LEAST_STRINGS && (places & (places - 1)) == 0 && taken + removed < places && item >= WORD &&
           item <= MOST_ITEM && item % WORD == 0 &&
           as_proof_is_made_for(&l->proof, w[0], (places + 1) * (WORD + HASH)) &&
           count_place(l, w[0], places, WORD, &marks, found) && found[1] == removed &&
           found[0] + found[1] + taken == places;
}

// An entry is as large as the length of its text says.
static void name_strings(struct llvm *l, uint32_t table, uint64_t item)
{
    const struct as_edges *e = l->edges;
    AS_FOR_EDGES(e, table, i) {
        uint32_t entry = as_edge_to(e, table, i);
        uint64_t memory = as_index_address(l->proof.patterns->index, entry) + AS_HEADER, length;
        uint8_t end;
        if (as_edge_begins(e, i) && as_target_read_u64(l->proof.target, memory, &length) && length < MOST_PLACES &&
            as_proof_is_made_for(&l->proof, memory, item + length + 1) &&
            as_target_read(l->proof.target, memory + item + length, &end, 1) && end == 0)
            as_proof_give(&l->proof, entry, AS_SHAPE_LLVM_STRING);
    }
}

// The size of the i-th slab, if the first has `size` bytes.
static uint64_t slab(uint64_t size, uint64_t i)
{
    return size << (i / SLABS_ALIKE < MOST_SHIFT ? i / SLABS_ALIKE : MOST_SHIFT);
}

// Where the next object goes, the end of the last slab; pointers to all slabs, how many, and for how many there is room.
static void match_slabs(struct llvm *l, const uint64_t w[4])
{
    uint64_t slabs = (uint32_t)w[3], room = w[3] >> 32, last;
    if (w[1] < w[0] || slabs == 0 || slabs > room || slabs > MOST_SLABS || slabs * WORD > l->proof.room ||
        !as_target_read_u64(l->proof.target, w[2] + (slabs - 1) * WORD, &last) || last > w[0])
        return;
    uint64_t size = w[1] - last;
    for (uint64_t i = 0; i < (slabs - 1) / SLABS_ALIKE && i < MOST_SHIFT; i++)
        size /= 2;
    if (size < LEAST_SLAB || (size & (size - 1)) != 0 || last + slab(size, slabs - 1) != w[1])
        return;
    l->proof.room -= slabs * WORD;
    for (int give = 0; give < 2; give++)
        for (uint64_t i = 0, each; i < slabs; i++) {
            if (!as_target_read_u64(l->proof.target, w[2] + i * WORD, &each) ||
                !as_proof_is_made_for(&l->proof, each, slab(size, i)))
                return;
            if (give)
                as_proof_give(&l->proof, as_proof_node(&l->proof, each), AS_SHAPE_LLVM_SLAB);
        }
}

static bool is_named(const struct llvm *l, uint32_t node)
{
    uint8_t shape = l->proof.patterns->shape[node];
    return shape >= AS_SHAPE_LLVM_DENSE && shape <= AS_SHAPE_LLVM_SLAB;
}

// Many words of one chunk are asked for: a window of memory is read at a time.
static bool read_words(struct llvm *l, uint64_t address, uint64_t w[4])
{
    if (address - l->start >= l->known) {
        l->start = address;
        l->known = as_target_read_resident(l->proof.target, address, l->window, WINDOW);
    }
    bool known = l->known - (address - l->start) >= 4 * WORD && l->known > 0;
    if (known)
        memcpy(w, l->window + (address - l->start), 4 * WORD);
    return known;
}

// May a word that leads to a table, or into a slab, have such neighbours? Numbers lead nowhere.
static bool may_be(const struct llvm *l, uint32_t node, uint32_t edge, uint32_t end)
{
    const struct as_edges *e = l->edges;
    uint32_t next = as_edge_next(e, edge);
    if (next == end)
        return true;
    uint32_t apart = as_edge_place(e, next) - as_edge_place(e, edge);
    return as_edge_begins(e, edge) ? apart > 2 : apart > 1 || as_edge_to(e, node, next) == as_edge_to(e, node, edge);
}

// `to`: where the word at the address leads.
static void match_beside(struct llvm *l, uint64_t address, uint32_t to)
{
    uint64_t w[4];
    if (l->tries == 0 || is_named(l, to) || !read_words(l, address, w))
        return;
    l->tries--;
    bool begins = as_proof_node(&l->proof, w[0]) == to;
    if (begins && is_dense_map(l, w)) {
        as_proof_give(&l->proof, to, AS_SHAPE_LLVM_DENSE);
    } else if (begins && is_string_map(l, w)) {
        as_proof_give(&l->proof, to, AS_SHAPE_LLVM_STRINGS);
        name_strings(l, to, w[2] >> 32);
    } else if (as_index_target(l->proof.patterns->index, w[1]) == to) {
        match_slabs(l, w);
    }
}

static void find_large(struct llvm *l)
{
    for (struct as_used_cursor c = as_used_begin(l->proof.patterns->index); as_used_next(&c);)
        l->large[c.chunk.node] = c.chunk.size - WORD >= LARGE;
}

static void match_all(struct llvm *l)
{
    const struct as_edges *e = l->edges;
    for (struct as_used_cursor c = as_used_begin(l->proof.patterns->index); as_used_next(&c);)
        AS_FOR_EDGES(e, c.chunk.node, i) {
            uint64_t offset = (uint64_t)as_edge_place(e, i) * WORD;
            uint32_t to = as_edge_to(e, c.chunk.node, i);
            if (l->large[to] && may_be(l, c.chunk.node, i, i_end) && offset / WORD < AS_PLACE_FAR &&
                offset + 3 * WORD <= c.chunk.size)
                match_beside(l, c.chunk.address + AS_HEADER + offset, to);
        }
}

bool as_llvm_find(const struct as_recogniser_input *in)
{
    struct llvm l = {.proof = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES},
                     .edges = in->edges,
                     .tries = MOST_TRIES};
    if (!in->patterns->claims.dense)
        return true;
    l.large = as_memory_map((size_t)in->edges->nodes + 1, "the tables of LLVM", NULL);
    l.window = l.large ? as_memory_map(WINDOW, "the tables of LLVM", NULL) : NULL;
    if (l.window) {
        find_large(&l);
        match_all(&l);
    }
    as_memory_unmap(l.large, (size_t)in->edges->nodes + 1);
    as_memory_unmap(l.window, WINDOW);
    return true;
}
