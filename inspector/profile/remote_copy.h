// SPDX-License-Identifier: MIT
// Tables of a recorder, copied from the target's memory. What cannot be read is zeros.
#pragma once

#include "profile/tables.h"
#include "target/target.h"

struct as_profile_source {
    struct as_target *target;
    const struct as_profile_head *head;
    const struct as_profile_table *table;
    uint64_t count, entry; // of its entries the first so many, of so many bytes each
};

static inline struct as_profile_source as_profile_source_of(struct as_target *t, const struct as_profile_head *head,
                                                            const struct as_profile_table *table, uint64_t count,
                                                            uint64_t entry)
{
    return (struct as_profile_source){t, head, table, count, entry};
}

// All of them, to be given back by as_profile_copy_free. It takes as much memory as the target has there: a table may claim any size,
// and the recorder's are mostly empty. NULL: AS_NO_MEMORY.
void *as_profile_copy(const struct as_profile_source *s, struct as_error *err);
void as_profile_copy_free(const struct as_profile_source *s, void *copy);

// The same in pieces, each of which is read when it is asked for: what is inspected mostly in its order takes little memory.
struct as_profile_pieces {
    struct as_profile_source source;
    char *room;     // of the pieces that are there
    uint64_t *held; // of each place in the room: the piece, and 1
    uint64_t reads;
    char *all; // where the pieces were read again and again: a copy of all of them
};

// `p` has its source, and is 0 otherwise. Free it in either case. False: AS_NO_MEMORY.
bool as_profile_pieces_open(struct as_profile_pieces *p, struct as_error *err);
void as_profile_pieces_free(struct as_profile_pieces *p);

// Entry `index`, below source.count; the size of an entry is a power of two, of at most 64 KiB. It stays until the next one is asked for.
const void *as_profile_piece(struct as_profile_pieces *p, uint64_t index);
