// SPDX-License-Identifier: MIT
// A free chunk in memory, and the head of a bin (struct malloc_chunk, struct malloc_state):
// where their words are, and whether a pointer that was read from one of them leads to where a free chunk can be. Internal to
// trim/; under the arena's lock only.
#pragma once

#include "malloc/trim_rules.h"
#include "trim/pass.h"

enum {
    AS_UNSORTED_BIN = 1,
    AS_LAST_BIN = 126,     // NBINS - 2: bins[] has room for one more, which malloc never uses
    AS_LEAST_LARGE = 1024, // MIN_LARGE_SIZE: from this size on a free chunk has links to other sizes
    // The offsets below are of a chunk's fields. A bin's head is a chunk of which only the two links exist.
    AS_OFFSET_SIZE = 8,
    AS_OFFSET_FD = 16,
    AS_OFFSET_BK = 24,
    AS_OFFSET_FD_NEXTSIZE = 32,
    AS_OFFSET_BK_NEXTSIZE = 40,
};

static inline uint64_t as_chunksize_at(uint64_t chunk)
{
    return as_chunksize(as_word(chunk + AS_OFFSET_SIZE));
}

static inline uint64_t as_bin_at(const struct as_trim_pass *p, int bin)
{
    return p->arena + (uint64_t)p->libc->layout.state.bins + (uint64_t)(bin - 1) * 16 - AS_OFFSET_FD;
}

static inline bool as_is_bin(const struct as_trim_pass *p, uint64_t address)
{
    uint64_t from = address - as_bin_at(p, AS_UNSORTED_BIN);
    return from % 16 == 0 && from / 16 < AS_LAST_BIN;
}

// True when `chunk` lies in the arena's memory, with its links and the header of its successor, and has the size and the flags
// that a free chunk has: what is before a free chunk is in use, and NON_MAIN_ARENA is only set of what is in use.
static inline bool as_is_free_chunk(struct as_trim_pass *p, uint64_t chunk)
{
    if (chunk % AS_ALIGNMENT != 0 || chunk == p->top || !as_trim_owns(p, chunk, AS_MALLOC_CHUNK_BYTES))
        return false;
    uint64_t head = as_word(chunk + AS_OFFSET_SIZE);
    uint64_t size = as_chunksize(head);
    return (head & AS_FLAG_BITS) == AS_PREV_INUSE && size >= AS_MIN_CHUNK && size % AS_ALIGNMENT == 0 &&
           as_trim_owns(p, chunk, size) && as_trim_owns(p, chunk, size + AS_HEADER);
}

// Merging a chunk of a fastbin with its free neighbours, as malloc_consolidate does. Internal to trim/.

// How a chunk will lie among its neighbours.
struct as_trim_merge {
    uint64_t chunk, size;
    uint64_t before; // the free chunk before it; 0: that is in use
    uint64_t behind; // the free chunk behind it; 0: that is in use, or the top
    bool into_top;
};

// Finds out, and checks every word that as_trim_merge_do is going to rely on, all that malloc itself checks and more. Writes
// nothing. AS_TRIM_CORRUPT or AS_TRIM_DONE.
enum as_trim_progress as_trim_merge_prepare(struct as_trim_pass *p, uint64_t chunk, uint64_t size,
                                            struct as_trim_merge *out);

// Does it: nothing may have happened since as_trim_merge_prepare but that the chunk was taken out of its fastbin.
void as_trim_merge_do(struct as_trim_pass *p, const struct as_trim_merge *m);
