// SPDX-License-Identifier: MIT
#include "recorder/chains.h"

enum { MOST_STEPS = 256 }; // a chain is some entries long: what is longer has been written over

static unsigned level_for(const struct as_recorder_chains *c, uint64_t used)
{
    unsigned level = 0;
    while (level + 1 < c->levels && used >> (c->bits + c->load + AS_RECORDER_LEVEL_BITS * level))
        level++;
    return level;
}

static _Atomic uint32_t *head_at(const struct as_recorder_chains *c, unsigned level, uint32_t hash)
{
    uint64_t count = UINT64_C(1) << (c->bits + AS_RECORDER_LEVEL_BITS * level);
    return &c->heads[as_recorder_heads_below(c->bits, level) + (hash & (count - 1))];
}

static _Atomic uint32_t *next_of(const struct as_recorder_chains *c, uint32_t id)
{
    return (_Atomic uint32_t *)(c->next + id * c->entry);
}

// Among the entries from `id` up to `end`, which is not inspected.
static uint32_t find_entry(const struct as_recorder_chains *c, uint32_t id, uint32_t end,
                           as_recorder_is_entry *is_entry, const void *wanted)
{
    for (unsigned i = 0; id != end && id != 0 && i < MOST_STEPS; i++) {
        if (is_entry(id, wanted))
            return id;
        id = atomic_load_explicit(next_of(c, id), memory_order_acquire);
    }
    return 0;
}

uint32_t as_recorder_chains_find(const struct as_recorder_chains *c, struct as_recorder_chain *chain,
                                 as_recorder_is_entry *is_entry, const void *wanted)
{
    const unsigned highest = level_for(c, chain->used);
    for (unsigned level = highest + 1; level-- > 0;) {
        uint32_t first = atomic_load_explicit(head_at(c, level, chain->hash), memory_order_acquire);
        uint32_t id = find_entry(c, first, 0, is_entry, wanted);
        if (id)
            return id;
        if (level == highest)
            chain->seen = first;
    }
    return 0;
}

void as_recorder_chains_prefetch(const struct as_recorder_chains *c, const struct as_recorder_chain *chain)
{
    __builtin_prefetch((void *)head_at(c, level_for(c, chain->used), chain->hash));
}

void as_recorder_chains_skip(const struct as_recorder_chains *c, struct as_recorder_chain *chain)
{
    chain->seen = atomic_load_explicit(head_at(c, level_for(c, chain->used), chain->hash), memory_order_acquire);
}

uint32_t as_recorder_chains_add(const struct as_recorder_chains *c, const struct as_recorder_chain *chain, uint32_t id,
                                as_recorder_is_entry *is_entry, const void *wanted)
{
    _Atomic uint32_t *head = head_at(c, level_for(c, chain->used), chain->hash);
    uint32_t first = atomic_load_explicit(head, memory_order_acquire);
    uint32_t seen = chain->seen == AS_RECORDER_ALL_SEEN ? first : chain->seen;
    do {
        uint32_t same = find_entry(c, first, seen, is_entry, wanted);
        if (same)
            return same;
        seen = first;
        atomic_store_explicit(next_of(c, id), first, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(head, &first, id, memory_order_release, memory_order_acquire));
    return id;
}
