// SPDX-License-Identifier: MIT
// PHP's strings and hash tables, where malloc has them.
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

enum { BLOCK = 4096, PHP_HASH = 5381, PHP_FACTOR = 33 };

// The hash follows from the text.
static void prove_string(struct as_proof *p, uint64_t address, uint32_t node)
{
    uint64_t w[3], hash = PHP_HASH; // reference count and type, hash, length
    uint8_t text[BLOCK];
    if (!as_target_read(p->target, address, w, sizeof w) || w[2] > p->room)
        return;
    p->room -= w[2];
    for (uint64_t at = 0; at < w[2]; at += BLOCK) {
        size_t count = w[2] - at < BLOCK ? (size_t)(w[2] - at) : BLOCK;
        if (!as_target_read(p->target, address + AS_PHP_TEXT + at, text, count))
            return;
        for (size_t i = 0; i < count; i++)
            hash = hash * PHP_FACTOR + text[i];
    }
    if (w[1] == (hash | UINT64_C(1) << 63))
        as_proof_give(p, node, AS_SHAPE_PHP_STRING);
}

void as_php_prove(struct as_proof *p, const struct as_claim *candidate)
{
    if (candidate->kind == AS_CLAIM_PHP_STRING)
        prove_string(p, candidate->address, candidate->node);
    else
        as_proof_give(p, candidate->node, AS_SHAPE_PHP_TABLE);
}
