// SPDX-License-Identifier: MIT
// glibc's conversions between character sets: the steps of each that was asked for, in a tree, and the modules that do them.
#include "recognisers/glibc.h"

enum {
    WORD = AS_GLIBC_WORD,
    STEP_WORDS = AS_GLIBC_STEP / WORD,
    MOST_STEPS = 8,
    DERIVATION_WORDS = 4,
    ALIAS_WORDS = 2,
    OBJECT_WORDS = 6,
    TREE_WORDS = 3,
    TREE_DEPTH = 64,
    MOST_NODES = 1 << 14,
    INFO_WORDS = 2,  // of what iconv_open() returns, before the data of its steps
    DATA_WORDS = 6,  // of struct __gconv_step_data
    MOST_SET = 16,   // bytes of a character
    LEAST_INFO = 80, // bytes of a chunk of one step
    MOST_INFO = 32 + AS_ALIGNMENT + MOST_STEPS * DATA_WORDS * WORD,
};

// struct __gconv_loaded_object: a name, which lies behind it, and what dlopen() has returned.
static bool match_object(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[OBJECT_WORDS];
    uint32_t node = as_proof_node(&g->proof, pointer);
    if (node == AS_NO_NODE || !as_glibc_read(g, pointer, w, sizeof w) || w[0] != pointer + sizeof w)
        return false;
    uint64_t length = as_glibc_text(g, w[0], NULL);
    if (length == AS_UNKNOWN || !as_proof_is_made_for(&g->proof, pointer, sizeof w + length + 1) ||
        (w[2] != 0 && !as_glibc_is_link_map(g, w[2])))
        return false;
    as_glibc_give(g, node, AS_SHAPE_GCONV_OBJECT);
    return true;
}

// struct __gconv_step: module and its name, use count, from, to; functions; least and most bytes of a character on both sides; is there
// a state?
static bool is_step(struct as_glibc *g, const uint64_t w[STEP_WORDS])
{
    for (int i = 9; i < 11; i++) {
        uint64_t least = (uint32_t)w[i], most = w[i] >> 32;
        if (least == 0 || least > most || most > MOST_SET)
            return false;
    }
    return (uint32_t)w[11] <= 1 && (int32_t)w[2] >= 0 && as_glibc_text(g, w[3], NULL) != AS_UNKNOWN &&
           as_glibc_text(g, w[4], NULL) != AS_UNKNOWN && w[5] != 0 &&
           (w[0] == 0 || as_proof_node(&g->proof, w[0]) != AS_NO_NODE);
}

// struct gconv_alias: what it stands for, and that, both behind it.
static bool match_alias(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[ALIAS_WORDS];
    uint32_t node = as_proof_node(&g->proof, pointer);
    if (node == AS_NO_NODE || !as_glibc_read(g, pointer, w, sizeof w) || w[0] != pointer + sizeof w)
        return false;
    uint64_t from = as_glibc_text(g, w[0], NULL), to = from != AS_UNKNOWN ? as_glibc_text(g, w[1], NULL) : AS_UNKNOWN;
    if (to == AS_UNKNOWN || w[1] != w[0] + from + 1 ||
        !as_proof_is_made_for(&g->proof, pointer, sizeof w + from + to + 2))
        return false;
    as_glibc_give(g, node, AS_SHAPE_GCONV_ALIAS);
    return true;
}

bool as_glibc_steps(struct as_glibc *g, uint64_t pointer, uint64_t count)
{
    uint64_t w[MOST_STEPS * STEP_WORDS];
    uint32_t node = as_proof_node(&g->proof, pointer);
    if (count == 0 || count > MOST_STEPS)
        return false;
    if (node == AS_NO_NODE) // a constant of libc's
        return as_glibc_is_own(g, pointer);
    if (as_number_map_get(&g->steps, (uint64_t)node + 1) == count)
        return true;
    // By the cache of modules, there is room for two steps, even if one will do.
    bool fits = as_proof_is_made_for(&g->proof, pointer, count * AS_GLIBC_STEP) ||
                (count == 1 && as_proof_is_made_for(&g->proof, pointer, 2 * AS_GLIBC_STEP));
    if (!fits || !as_glibc_read(g, pointer, w, count * AS_GLIBC_STEP))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!is_step(g, w + i * STEP_WORDS))
            return false;
    for (uint64_t i = 0; i < count; i++)
        match_object(g, w[i * STEP_WORDS]);
    as_glibc_give(g, node, AS_SHAPE_GCONV_STEPS);
    return as_number_map_put(&g->steps, (uint64_t)node + 1, (uint32_t)count, NULL);
}

// struct known_derivation: from and to, which lie behind it, and the steps.
static bool match_derivation(struct as_glibc *g, uint64_t pointer)
{
    uint64_t w[DERIVATION_WORDS];
    uint32_t node = as_proof_node(&g->proof, pointer);
    if (node == AS_NO_NODE || !as_glibc_read(g, pointer, w, sizeof w) || w[0] != pointer + sizeof w)
        return false;
    uint64_t from = as_glibc_text(g, w[0], NULL), to = from != AS_UNKNOWN ? as_glibc_text(g, w[1], NULL) : AS_UNKNOWN;
    if (to == AS_UNKNOWN || w[1] != w[0] + from + 1 ||
        !as_proof_is_made_for(&g->proof, pointer, sizeof w + from + to + 2) ||
        (w[3] != 0 ? !as_glibc_steps(g, w[2], w[3]) : w[2] != 0))
        return false;
    as_glibc_give(g, node, AS_SHAPE_GCONV_DERIVATION);
    return true;
}

// tsearch()'s nodes: a key, and two others, whose lowest bit may be set (red). What the keys are decides whose tree it is.
void as_glibc_iconv_match(struct as_glibc *g, uint64_t pointer)
{
    uint64_t stack[TREE_DEPTH] = {pointer}, w[TREE_WORDS];
    unsigned depth = 1;
    for (unsigned count = 0; depth > 0 && count < MOST_NODES; count++) {
        uint64_t at = stack[--depth];
        if (!as_proof_is_made_for(&g->proof, at, sizeof w) || !as_glibc_read(g, at, w, sizeof w) ||
            (!match_derivation(g, w[0]) && !match_object(g, w[0]) && !match_alias(g, w[0])))
            return;
        as_glibc_give(g, as_proof_node(&g->proof, at), AS_SHAPE_TSEARCH);
        g->converts = true;
        for (int i = 1; i < TREE_WORDS && depth < TREE_DEPTH; i++)
            if ((w[i] & ~UINT64_C(1)) != 0)
                stack[depth++] = w[i] & ~UINT64_C(1);
    }
}

// What iconv_open() returns: how many steps, the steps, and data for each: a buffer's begin and end (of all but the last). Searched for
// where a module of conversions has been loaded.
void as_glibc_iconv_match_at(struct as_glibc *g, const struct as_used_chunk *chunk)
{
    uint64_t w[INFO_WORDS + MOST_STEPS * DATA_WORDS], pointer = chunk->address + AS_HEADER;
    if (!g->converts || chunk->size < LEAST_INFO || chunk->size > MOST_INFO ||
        as_edge_link(g->edges, chunk->node, 1) == AS_NO_NODE || !as_glibc_read(g, pointer, w, INFO_WORDS * WORD))
        return;
    uint64_t count = w[0], bytes = (INFO_WORDS + count * DATA_WORDS) * WORD;
    if (count == 0 || count > MOST_STEPS || !as_proof_is_made_for(&g->proof, pointer, bytes) ||
        as_proof_node(&g->proof, w[1]) == AS_NO_NODE || !as_glibc_steps(g, w[1], count) ||
        !as_glibc_read(g, pointer, w, bytes))
        return;
    as_glibc_give(g, chunk->node, AS_SHAPE_ICONV);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t *data = w + INFO_WORDS + i * DATA_WORDS;
        if (data[1] > data[0] && as_proof_is_made_for(&g->proof, data[0], data[1] - data[0]))
            as_glibc_give(g, as_proof_node(&g->proof, data[0]), AS_SHAPE_ICONV_BUFFER);
    }
}
