// SPDX-License-Identifier: MIT
// The arrays of glib's GHashTable (from glib 2.62 on). Before the pointer to the keys are the number of places, a power of two, its
// mask, and how many places are in use; behind it are the pointers to the hashes and to the values. Each array has a place for each
// of these numbers. The number of places has 8 bytes, in glib 2.90 it has 4: then all before the keys takes a word less.
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

enum { WORD = sizeof(uint64_t), HASH = sizeof(uint32_t), LEAST = 8, WORDS = 4, BEHIND = 64 };

struct numbers {
    uint64_t places, mask, nodes, taken;
    unsigned words; // before the pointer to the keys
};

// *n: what the words before that pointer, which are `w`, say.
static bool read_hash_numbers(struct numbers *n, const uint64_t w[WORDS])
{
    *n = (struct numbers){w[0], w[1] >> 32, (uint32_t)w[2], w[2] >> 32, WORDS};
    if (n->places == 0 || n->places > UINT32_MAX || n->mask != n->places - 1)
        *n = (struct numbers){(uint32_t)w[1], (uint32_t)w[2], w[2] >> 32, (uint32_t)w[3], WORDS - 1};
    return n->places >= LEAST && (n->places & (n->places - 1)) == 0 && n->mask == n->places - 1 &&
           n->nodes <= n->taken && n->taken <= n->places;
}

// The bytes of an array of so many keys or values, which may be of 4 bytes each; 0: none of that size is there.
static uint64_t bytes_of(const struct as_proof *p, uint64_t pointer, uint64_t places)
{
    for (uint64_t each = HASH; each <= WORD; each += HASH)
        if (as_proof_is_made_for(p, pointer, places * each))
            return places * each;
    return 0;
}

void as_glib_prove(struct as_proof *p, const struct as_claim *candidate)
{
    const uint64_t address = candidate->address;
    uint64_t w[WORDS + 3]; // the numbers; the pointers to keys, hashes and values
    struct numbers n;
    if (!as_target_read(p->target, address - (uint64_t)WORDS * WORD, w, sizeof w) || !read_hash_numbers(&n, w) ||
        !as_proof_is_made_for(p, w[5], n.places * HASH) || bytes_of(p, w[4], n.places) == 0 ||
        bytes_of(p, w[6], n.places) == 0)
        return;
    as_proof_give(p, as_proof_node(p, w[4]), AS_SHAPE_GLIB_KEYS);
    as_proof_give(p, as_proof_node(p, w[5]), AS_SHAPE_GLIB_HASHES);
    if (w[6] != w[4]) // of a set, the keys are the values
        as_proof_give(p, as_proof_node(p, w[6]), AS_SHAPE_GLIB_VALUES);
    uint64_t before = (uint64_t)n.words * WORD;
    as_proof_give_sized(p, address - before, before + BEHIND, AS_SHAPE_GLIB_TABLE);
}
