// SPDX-License-Identifier: MIT
// In which context each chunk in use was allocated: what a recorder has written in the slot of the place where it begins.
#pragma once

#include "malloc/chunk.h"
#include "profile/remote_copy.h"
#include "profile/thread_shares.h"

// The page on which the last chunk that was counted begins.
struct as_profile_chunks_page {
    uint64_t number;
    bool known, watched, found;
    const uint8_t *block; // its slots; NULL: it has none
    uint32_t large;       // the only slot of a page that is not watched
};

struct as_profile_chunks {
    const struct as_profile_head *head;
    struct as_profile_pieces blocks;
    struct as_profile_source page_source, large_source, refused_source;
    uint64_t *pages, *refused;
    uint32_t *large_slots;
    uint64_t block_count, large_count;
    struct as_profile_chunks_page page;
};

// What contexts have: of each, of those chunks that none has, and of each boundary the context of the chunk that begins there.
struct as_profile_counted {
    struct as_profile_live *live;
    uint64_t context_count;
    struct as_profile_live unseen;
    uint32_t *id_of;
};

// Takes what is in the slots; `c` is 0, and `head` stays. Free it in either case. False: AS_NO_MEMORY.
bool as_profile_chunks_open(struct as_profile_chunks *c, struct as_target *t, const struct as_profile_head *head,
                            struct as_error *err);
void as_profile_chunks_free(struct as_profile_chunks *c);

// Adds the chunks in use to what is counted. `boundaries` as in as_stopped_reader, with AS_GAP_FREE.
void as_profile_chunks_count(struct as_profile_chunks *c, const as_boundary_vec *boundaries,
                             struct as_profile_counted *counted);
