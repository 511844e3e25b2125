// SPDX-License-Identifier: MIT
// The head of a recorder's tables in a target's memory. It is found without symbols: it begins a mapping, and names its own address.
#pragma once

#include "profile/tables.h"
#include "target/target.h"

// As wide as the fields of a page's entry and of a slot.
#define AS_PROFILE_BLOCK_MASK ((UINT64_C(1) << AS_PROFILE_BLOCK_BITS) - 1)
#define AS_PROFILE_ID_MASK ((1U << AS_PROFILE_ID_BITS) - 1)

// Where the head is; 0: the target has none that holds. Reads a few bytes of each large private mapping. The second one copies it, too.
uint64_t as_profile_find(struct as_target *t);
uint64_t as_profile_head_find(struct as_target *t, struct as_profile_head *head);

// What seems to be the head of tables: is it one, of which [address, address + room) is private and can be written?
bool as_profile_head_holds(const struct as_profile_head *head, uint64_t address, uint64_t room);

// The entries of a table that are used: it is the target's word, and may be any number.
static inline uint64_t as_profile_used(const struct as_profile_table *table)
{
    return table->used < table->size ? table->used : table->size;
}
