// SPDX-License-Identifier: MIT
// What read.c reads by other files: lines of interpreted code, sites of chunks, pages that sites keep.
#pragma once

#include "malloc/chunk.h"
#include "model/store.h"
#include "profile/remote_copy.h"
#include "profile/tables.h"
#include "profile/thread_shares.h"
#include "target/target.h"

// In which context each chunk in use was allocated: what a recorder has written in the slot of the place where it begins.

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

// Adds the line that a frame (AS_PROFILE_PYTHON, AS_PROFILE_RUBY) names to the store's profile_lines, and returns its index + 1; 0:
// AS_NO_MEMORY.
uint32_t as_profile_read_line(struct as_target *t, const struct as_profile_head *head, uint64_t frame,
                              struct as_store *s, struct as_error *err);

// Which pages the sites of a profile keep: where the walk's chunks, their sites and the page records meet.
struct as_site_keeping {
    const as_boundary_vec *boundaries; // as in as_stopped_reader, with AS_GAP_FREE
    const uint32_t *id_of;             // for each boundary where a chunk in use begins: its context
    uint64_t ids;                      // above all contexts
    const uint64_t *id_of_site;        // of each site of the store: its context; others have no site
    uint32_t page_size;
    uint32_t page_rate; // one page in so many is watched
    uint64_t large;     // chunks of at least so many bytes are recorded wherever they begin
};

// Fills in the store's profile_pins and profile_places. AS_NO_MEMORY.
bool as_page_pins_make(const struct as_site_keeping *k, struct as_store *s, struct as_error *err);
