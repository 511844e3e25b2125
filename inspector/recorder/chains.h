// SPDX-License-Identifier: MIT
// A hash table of the entries of a table that only grows: each entry names the next one with the same hash. No lock is
// taken. The heads of chains are many only where the entries are: each level has eight times as many as the one below,
// and is used when the one below has enough entries (`load`). So a small table takes little memory, nothing is ever
// moved, and what is not there is searched for in few places. Internal to profile/.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct as_recorder_chains {
    _Atomic uint32_t *heads; // of all levels, the smallest first
    unsigned bits, levels;   // the first level has 1 << bits, the next ones AS_RECORDER_LEVEL_BITS more each
    unsigned load;           // a level is used for 1 << load entries for each of its heads
    char *next;              // where the first entry names the next one
    size_t entry;            // bytes of an entry
};

enum { AS_RECORDER_LEVEL_BITS = 3 };

// How many heads the levels below this one have together.
static inline uint64_t as_recorder_heads_below(unsigned bits, unsigned level)
{
    const uint64_t times = (UINT64_C(1) << AS_RECORDER_LEVEL_BITS) - 1;
    return ((UINT64_C(1) << AS_RECORDER_LEVEL_BITS * level) - 1) / times << bits;
}

// Whether the entry is the one that is wanted.
typedef bool as_recorder_is_entry(uint32_t id, const void *wanted);

// Where an entry is searched for, and added if it is not there.
struct as_recorder_chain {
    uint64_t used; // entries of the table, when it was searched for
    uint32_t hash;
    uint32_t seen; // the first of those that were inspected then
};
// Nobody else can be adding it.
#define AS_RECORDER_ALL_SEEN UINT32_MAX

// The entry; 0: it is not there.
uint32_t as_recorder_chains_find(const struct as_recorder_chains *c, struct as_recorder_chain *chain,
                                 as_recorder_is_entry *is_entry, const void *wanted);

// Asks the processor for what as_recorder_chains_find() reads first.
void as_recorder_chains_prefetch(const struct as_recorder_chains *c, const struct as_recorder_chain *chain);

// In place of as_recorder_chains_find(), where the caller knows that what the chain has now is not the wanted entry.
void as_recorder_chains_skip(const struct as_recorder_chains *c, struct as_recorder_chain *chain);

// Adds an entry that is complete but for its next, and that was not found. Returns it, or the same one that another thread has added
// meanwhile. (Where two threads are on two levels, both add theirs.)
uint32_t as_recorder_chains_add(const struct as_recorder_chains *c, const struct as_recorder_chain *chain, uint32_t id,
                                as_recorder_is_entry *is_entry, const void *wanted);
