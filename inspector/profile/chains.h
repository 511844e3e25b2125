// SPDX-License-Identifier: MIT
// A hash table of the entries of a table that only grows: each entry names the next one with the same hash. No lock is taken. The heads of
// chains are many only where the entries are: each level has twice as many as the one below, and is used when the table has more
// entries than the levels below have heads. So a small table takes little memory, and nothing is ever moved. Internal to profile/.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct as_recorder_chains {
    _Atomic uint32_t *heads; // of all levels, the smallest first
    unsigned bits, levels;   // the first level has 1 << bits
    char *next;              // where the first entry names the next one
    size_t entry;            // bytes of an entry
};

// How many heads all levels have.
#define AS_RECORDER_HEADS(bits, levels) ((UINT64_C(1) << ((bits) + (levels))) - (UINT64_C(1) << (bits)))

// Whether the entry is the one that is wanted.
typedef bool as_recorder_is_entry(uint32_t id, const void *wanted);

// The entry, in a table of so many; 0: it is not there.
uint32_t as_recorder_chains_find(const struct as_recorder_chains *c, uint64_t used, uint32_t hash,
                                 as_recorder_is_entry *is_entry, const void *wanted);

// Adds an entry that is complete but for its next. Returns it, or the same one that another thread has added meanwhile. (Where two
// threads are on two levels, both add theirs.)
uint32_t as_recorder_chains_add(const struct as_recorder_chains *c, uint64_t used, uint32_t hash, uint32_t id,
                                as_recorder_is_entry *is_entry, const void *wanted);
