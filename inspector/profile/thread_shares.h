// SPDX-License-Identifier: MIT
// A stack that several threads were on has a context for each in a recorder's tables. For a reader it is one stack, and each thread has a
// share of it.
#pragma once

#include "model/store.h"
#include "profile/tables.h"
#include "target/target.h"

// What a context has: chunks in use, those that were recorded and what they stand for; samples, and what these stand for.
struct as_profile_live {
    uint64_t seen_count, seen_bytes, count, bytes;
    uint64_t samples, allocated; // in 1/1024 of objects
    uint64_t allocated_bytes;
};

static inline void as_profile_live_add(struct as_profile_live *to, const struct as_profile_live *from)
{
    to->seen_count += from->seen_count;
    to->seen_bytes += from->seen_bytes;
    to->count += from->count;
    to->bytes += from->bytes;
    to->samples += from->samples;
    to->allocated += from->allocated;
    to->allocated_bytes += from->allocated_bytes;
}

// Objects, of 1/1024 of objects.
static inline uint64_t as_profile_whole(uint64_t parts)
{
    return (parts + 512) / 1024;
}

struct as_profile_merging {
    struct as_store *store;
    struct as_profile_context *contexts; // so many as `count`, and what each has
    struct as_profile_live *live;
    uint64_t count;
    uint32_t *id_of; // of each of so many chunks: its context
    uint64_t chunks;
};

// Makes the contexts of each stack one, the first of them, whose the chunks are then; what the others have is 0. The shares are kept
// in the store, where `site` is the context still. (An agent's own dumps have none.) False: AS_NO_MEMORY.
bool as_profile_merge(const struct as_profile_merging *m, struct as_error *err);

// Makes `site` of the same shares the index of the store's site that has this context. False: AS_NO_MEMORY.
bool as_profile_shares_end(struct as_store *s, const uint64_t *id_of_site, struct as_error *err);

// Adds the threads of a recorder's tables to the store. False: AS_NO_MEMORY.
bool as_profile_add_threads(struct as_target *t, const struct as_profile_head *head, struct as_store *s,
                            struct as_error *err);
