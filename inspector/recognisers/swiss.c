// SPDX-License-Identifier: MIT
// The tables of Rust's HashMap and HashSet (hashbrown). A word leads to the control bytes: one for each bucket, and a group of them
// again behind the last. The buckets lie before them, in the same chunk. Beside the word are the mask of the buckets' numbers, how many
// more elements there is room for, and how many there are. All control bytes are read: as many as there are elements say so.
#include "recognisers/libraries.h"
#include "recognisers/proof.h"

#include <string.h>

enum { WORD = sizeof(uint64_t), BLOCK = 4096, EMPTY = 0xff, DELETED = 0x80, MOST_GROUP = 16 };

struct swiss {
    uint64_t control, buckets, left, items;
    uint64_t group; // bytes that are there again
};

static bool is_power(uint64_t count)
{
    return count != 0 && (count & (count - 1)) == 0;
}

// May w[0], w[1] and w[2] be the mask, and the two numbers behind?
static bool accept_swiss_table(struct swiss *s, uint64_t mask, uint64_t left, uint64_t items)
{
    uint64_t capacity = mask < 8 ? mask : (mask + 1) / 8 * 7;
    s->buckets = mask + 1;
    s->left = left;
    s->items = items;
    return mask >= 3 && mask < UINT32_MAX && is_power(mask + 1) && items <= capacity && left <= capacity - items;
}

// Does the chunk end where the control bytes do, and begin where the buckets do?
static bool fits_chunk(const struct as_proof *p, const struct swiss *s, uint32_t node)
{
    uint64_t memory = as_index_address(p->patterns->index, node) + AS_HEADER, before = s->control - memory;
    bool whole = s->buckets >= AS_ALIGNMENT ? before % s->buckets == 0 : before % AS_ALIGNMENT == 0;
    return s->control % s->group == 0 && s->control > memory && before / s->buckets > 0 && whole &&
           as_proof_is_made_for(p, memory, before + s->buckets + s->group);
}

// Are the last bytes those of the first group again, and as many buckets in use as there are elements?
static bool count_buckets(struct as_proof *p, const struct swiss *s)
{
    uint8_t block[BLOCK], first[MOST_GROUP], last[MOST_GROUP];
    uint64_t full = 0, free = 0;
    if (s->buckets > p->room || !as_target_read(p->target, s->control, first, s->group) ||
        !as_target_read(p->target, s->control + s->buckets, last, s->group))
        return false;
    p->room -= s->buckets;
    if (s->buckets >= s->group && memcmp(first, last, s->group) != 0)
        return false;
    for (uint64_t at = 0; at < s->buckets; at += BLOCK) {
        size_t count = s->buckets - at < BLOCK ? (size_t)(s->buckets - at) : BLOCK;
        if (!as_target_read(p->target, s->control + at, block, count))
            return false;
        for (size_t i = 0; i < count; i++) {
            full += block[i] < DELETED;
            free += block[i] == DELETED || block[i] == EMPTY;
        }
    }
    return full == s->items && full + free == s->buckets;
}

// Notes which buckets are full, for the types of what they hold.
static void note_full_buckets(struct as_proof *p, const struct swiss *s, uint32_t node)
{
    uint8_t block[BLOCK];
    uint64_t memory = as_index_address(p->patterns->index, node) + AS_HEADER;
    uint64_t *full = as_pattern_add_buckets(p->patterns, node, s->control - memory, s->buckets);
    for (uint64_t at = 0; full && at < s->buckets; at += BLOCK) {
        size_t count = s->buckets - at < BLOCK ? (size_t)(s->buckets - at) : BLOCK;
        if (!as_target_read(p->target, s->control + at, block, count))
            return;
        for (size_t i = 0; i < count; i++)
            full[(at + i) / 64] |= (uint64_t)(block[i] < DELETED) << (at + i) % 64;
    }
}

void as_swiss_prove(struct as_proof *p, const struct as_claim *candidate)
{
    uint64_t w[5]; // the word before, the pointer, three behind
    if (!as_target_read(p->target, candidate->address - WORD, w, sizeof w))
        return;
    // Releases of Rust have the mask before the pointer or behind it.
    for (int order = 0; order < 2; order++) {
        struct swiss s = {.control = w[1], .group = p->target->arch == AS_ARCH_X86_64 ? MOST_GROUP : MOST_GROUP / 2};
        if (order == 0 ? accept_swiss_table(&s, w[2], w[3], w[4]) : accept_swiss_table(&s, w[0], w[2], w[3]))
            if (fits_chunk(p, &s, candidate->node) && count_buckets(p, &s)) {
                as_proof_give(p, candidate->node, AS_SHAPE_SWISS);
                note_full_buckets(p, &s, candidate->node);
            }
    }
}
