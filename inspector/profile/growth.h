// SPDX-License-Identifier: MIT
// What grew since a profile began: how many chunks in use of each size there were then, and are now, and which part of the growth each
// site has. A recorder sees no free(): two walks tell what stays.
#pragma once

#include "malloc/chunk.h"
#include "model/store.h"

struct as_chunk_count {
    uint64_t size, count;
};
typedef AS_VEC(struct as_chunk_count) as_chunk_count_vec;

// What was in use when a profile began.
struct as_profile_baseline {
    as_chunk_count_vec sizes; // ascending
    as_graph_type_vec types;  // by name and evidence; names are in `strings`
    struct as_strings strings;
    bool typed;       // types are known,
    bool types_exact; // and counted at one instant
    uint64_t time_ns; // of the walk, since the epoch
    bool exact;       // the walk was
};

void as_profile_baseline_free(struct as_profile_baseline *b);

// Counts the chunks in use by size. `boundaries` as in as_stopped_reader; `counts` is empty. AS_NO_MEMORY.
bool as_profile_count_sizes(const as_boundary_vec *boundaries, as_chunk_count_vec *counts, struct as_error *err);

struct as_profile_growing {
    const struct as_profile_baseline *baseline;
    const as_boundary_vec *boundaries;
    const uint32_t
        *id_of;         // for each boundary where a chunk in use begins: its context; AS_PROFILE_NOBODY: not recorded
    uint32_t page_rate; // one page in so many is watched
    uint64_t large;     // chunks of at least so many bytes are recorded wherever they begin
};

// A context's part of the growth: of each size that grew, as large a part as it has of the recorded chunks of this size.
struct as_profile_grown {
    double count, bytes;
};

// Fills in the store's profile_sizes, and adds up the parts of each context in `grown`. AS_NO_MEMORY.
bool as_profile_growth_make(const struct as_profile_growing *g, struct as_store *s, struct as_profile_grown *grown,
                            struct as_error *err);

// A tag says of a chunk in use: it was not recorded; it was, and stands for those on pages that are not watched; it was, and stands for
// itself.
enum as_noted { AS_NOT_NOTED, AS_NOTED_ON_PAGE, AS_NOTED_LARGE };
// Puts into `noted`, in place of what it has, the address of each chunk in use with its tag, ascending. AS_NO_MEMORY.
bool as_profile_note_chunks(const struct as_profile_growing *g, as_boundary_vec *noted, struct as_error *err);
