// SPDX-License-Identifier: MIT
// Whether an arena's lists hold exactly the chunks that the walk found free, without following them: each bin is a ring, so
// over all members and heads of bins the forward links are the same addresses as the members and heads themselves,
// in another order, and so are the backward links. Sums over scrambled addresses tell; they cost nothing that the
// walk does not read anyway, where following lists is a cache miss for each member.
#pragma once

#include <stdint.h>

struct as_bin_sums {
    uint64_t nodes, forward, back; // sums over scrambled addresses
};

// A bijection (a step of splitmix64), so that no two wrong addresses make a right sum but by rare chance.
static inline uint64_t as_scramble(uint64_t address)
{
    address ^= address >> 30;
    address *= UINT64_C(0xbf58476d1ce4e5b9);
    return address ^ address >> 27;
}

static inline void as_bin_sums_add(struct as_bin_sums *l, uint64_t node, uint64_t forward, uint64_t back)
{
    l->nodes += as_scramble(node);
    l->forward += as_scramble(forward);
    l->back += as_scramble(back);
}
