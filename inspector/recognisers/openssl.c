// SPDX-License-Identifier: MIT
// The hash tables (LHASH) and the stacks (STACK_OF) of OpenSSL's libcrypto, 1.1.1 and later. A program that has not mapped the library
// pays nothing.
//
// Numbers (BIGNUM) have no name: {pointer, length, room, sign, flags} is what many a vector of other libraries has.
#include "recognisers/hash_chains.h"
#include "recognisers/libraries.h"
#include "target/window.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    FUNCTIONS = 2,      // behind the pointer to a table: comparison and hash
    MORE_FUNCTIONS = 4, // from OpenSSL 3.3 on there are so many more, which may be missing
    NUMBERS = 5,        // that follow
    LEAST_BUCKETS = 16,
    UP_LOAD = 512, // nodes in 256 buckets, from which on there are more
    DOWN_LOAD = 256,
    NODE_BYTES = 24,
    NEXT = 1,         // word of a node
    MOST_LHASH = 256, // bytes of a chunk: releases differ in what they count
                      // behind the numbers
    STACK_WORDS = 4,
    MOST_STACK = 64,
    LEAST_ROOM = 4, // of a stack
    BLOCK = 512,    // words read at a time
    MOST_PASSES = 8,
};

struct openssl {
    struct as_proof proof;
    const struct as_edges *edges;
    struct as_window window;
    uint64_t steps; // that are left
};

// Do the numbers follow from each other, as those of a table that grows by one
// bucket at a time? Buckets in use, and room for them; the next that is split,
// and how many there were before; loads; nodes.
static bool are_numbers(const uint64_t w[NUMBERS])
{
    uint64_t used = (uint32_t)w[0], room = w[0] >> 32, split = (uint32_t)w[1], before = w[1] >> 32;
    return room >= LEAST_BUCKETS && room == 2 * before && split < before && used == before + split && w[2] == UP_LOAD &&
           (w[3] == DOWN_LOAD || w[3] == 0);
}

static void match_table(struct openssl *o, const struct as_used_chunk *chunk)
{
    enum { WORDS = 1 + FUNCTIONS + MORE_FUNCTIONS + NUMBERS };
    const uint64_t *w = as_window_at(&o->window, chunk->address + AS_HEADER, WORDS * WORD);
    if (!w || !as_target_is_code(o->proof.target, w[1]) || !as_target_is_code(o->proof.target, w[2]))
        return;
    const uint64_t *numbers = w + 1 + FUNCTIONS;
    if (!are_numbers(numbers))
        numbers += MORE_FUNCTIONS;
    if (!are_numbers(numbers) || !as_proof_is_made_for(&o->proof, w[0], (numbers[0] >> 32) * WORD))
        return;
    uint32_t table = as_proof_node(&o->proof, w[0]);
    const struct as_chains chains = {&o->proof, o->edges, numbers[0] >> 32, NEXT, AS_NO_NODE, NODE_BYTES, &o->steps};
    if (!as_chains_prove(&chains, table, numbers[NUMBERS - 1], AS_SHAPE_LHASH_NODE))
        return;
    as_proof_give(&o->proof, chunk->node, AS_SHAPE_LHASH);
    as_proof_give(&o->proof, table, AS_SHAPE_LHASH_TABLE);
}

// Has a stack got so much room by pushing? Up to OpenSSL 3.0 it takes half as
// much more each time, later three fifths.
static bool has_grown_to(uint64_t room)
{
    static const unsigned steps[][2] = {{3, 2}, {8, 5}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        uint64_t n = LEAST_ROOM;
        while (n < room)
            n = n * steps[i][0] / steps[i][1];
        if (n == room && room > LEAST_ROOM)
            return true;
    }
    return false;
}

// Does each of the words lead somewhere?
static bool are_pointers(struct openssl *o, uint64_t items, uint64_t count)
{
    uint64_t w[BLOCK];
    if (count * WORD > o->proof.room)
        return false;
    o->proof.room -= count * WORD;
    for (uint64_t at = 0; at < count; at += BLOCK) {
        uint64_t known = count - at < BLOCK ? count - at : BLOCK;
        if (!as_target_read(o->proof.target, items + at * WORD, w, known * WORD))
            return false;
        for (uint64_t i = 0; i < known; i++)
            if (!as_target_mapping_at(o->proof.target, w[i]))
                return false;
    }
    return true;
}

// How many there are, the items, whether they are sorted and for how many there
// is room, how they are compared.
static void match_stack(struct openssl *o, const struct as_used_chunk *chunk)
{
    const uint64_t *seen = as_window_at(&o->window, chunk->address + AS_HEADER, STACK_WORDS * WORD);
    uint64_t w[STACK_WORDS];
    if (!seen)
        return;
    memcpy(w, seen, sizeof w);
    uint64_t sorted = (uint32_t)w[2], room = w[2] >> 32;
    bool known = w[3] == 0 ? has_grown_to(room) : as_target_is_code(o->proof.target, w[3]);
    if (w[0] == 0 || w[0] > room || room < LEAST_ROOM || room > INT32_MAX || sorted > 1 || !known ||
        !as_proof_is_made_for(&o->proof, w[1], room * WORD) || !are_pointers(o, w[1], w[0]))
        return;
    as_proof_give(&o->proof, chunk->node, AS_SHAPE_STACK);
    as_proof_give(&o->proof, as_proof_node(&o->proof, w[1]), AS_SHAPE_STACK_ITEMS);
}

// Which word leads to what decides what a chunk may be.
static void match_all(struct openssl *o)
{
    for (struct as_used_cursor c = as_used_begin(o->proof.patterns->index); as_used_next(&c);) {
        if (c.chunk.size > MOST_LHASH)
            continue;
        if (as_edge_link(o->edges, c.chunk.node, 0) != AS_NO_NODE)
            match_table(o, &c.chunk);
        else if (c.chunk.size <= MOST_STACK && as_edge_link(o->edges, c.chunk.node, 1) != AS_NO_NODE)
            match_stack(o, &c.chunk);
    }
}

bool as_openssl_find(const struct as_recogniser_input *in)
{
    struct openssl o = {.proof = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES},
                        .edges = in->edges,
                        .steps = MOST_PASSES * (in->edges->pointers + in->edges->nodes)};
    if (as_proof_has_library(in->target, "/libcrypto") && as_window_open(&o.window, in->target, NULL))
        match_all(&o);
    as_window_close(&o.window);
    return true;
}
