// SPDX-License-Identifier: MIT
// What is being counted: the state that all of ledger/ works on.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "malloc/chunk.h"
#include "model/records.h"
#include "model/store.h"
#include "target/target.h"

// How many chunks of each size there are, and which of them are pins.
enum { AS_SIZES_DIRECT = 4096 }; // sizes below 64 KiB have a place each; larger ones are hashed

// Chunks of one size.
struct as_size_count {
    struct as_size_record record;
    uint64_t places, shared_stranded; // as in struct as_sharer_record
};

struct as_sizes {
    struct as_size_count *direct;
    AS_VEC(struct as_size_count) large; // open addressing; the count is that of the slots in use
    size_t slots;                       // a power of two
    bool used;                          // a size has been asked for
};

bool as_sizes_open(struct as_sizes *s, struct as_error *err);
void as_sizes_close(struct as_sizes *s);

// Adds every count of `from`, whose counts are not to be read any more. False when memory ran out.
bool as_sizes_add(struct as_sizes *to, struct as_sizes *from);

// The record for a size, made if need be; NULL when memory ran out. Valid until the next call with a new large size.
struct as_size_count *as_sizes_large(struct as_sizes *s, uint64_t size);
static inline struct as_size_count *as_sizes_at(struct as_sizes *s, uint64_t size)
{
    s->used = true;
    return size / AS_UNIT < AS_SIZES_DIRECT ? &s->direct[size / AS_UNIT] : as_sizes_large(s, size);
}

// What some heaps came to, until it is their turn in the store: several workers may count at once.
struct as_ledger_partial {
    AS_VEC(struct as_heap_record) heaps; // first_page counts from the first of `pages`
    as_page_vec *pages;                  // where their page records go: `own`, or the store's
    as_page_vec own;
    AS_VEC(struct as_residency_failure) doubts;
};

// Pages whose residency the kernel did not tell.
struct as_residency_failure {
    uint32_t heap; // index in the part
    uint64_t address;
    struct as_error why;
};

// Which chunks in use are collected by their addresses.
struct as_collecting {
    uint64_t from; // those of at least so many bytes; 0: none are
    bool gaps;     // also where each heap and each gap between them begins, tagged; behind the last chunk is a gap
    bool free;     // the free parts of these gaps apart (AS_GAP_FREE)
};

// What is being counted right now: one heap at a time.
struct as_ledger_builder {
    struct as_chunk_sink sink; // the walk's chunks come in here
    struct as_store *store;    // only the current arena's record and the mappings' malloc_rss are written to
    struct as_ledger_partial *part;
    struct as_target *target;
    struct as_error *err;
    struct as_sizes sizes;
    struct as_chunk_writer *chunks; // NULL: chunk records not wanted
    struct as_collecting collecting;
    as_boundary_vec collected; // as `collecting` says

    // The current heap.
    struct as_heap_record *heap;
    struct as_ledger *ledger;
    struct as_tallies *tallies;
    unsigned page_shift; // page_size is 1 << page_shift: a division for each chunk would cost more than all else
    uint64_t base;       // address of its first page
    struct as_page_record *pages;
    bool slack; // what is neither chunk nor header of the current heap is slack of a map, not malloc's metadata
    bool trims_fastbins;   // malloc_trim consolidates fastbins first (to 2.42)
    uint64_t systrim_unit; // for this heap's top (trim_rules.h); 0: systrim cannot cut it
    uint64_t cut;          // from here on brk gives the top back; UINT64_MAX: it gives nothing

    bool in_gap;      // the chunk before was not in use, and the gap that it belongs to has been collected
    bool gap_is_free; // with AS_GAP_FREE

    bool runtime_known[AS_ROW_COUNT]; // of a runtime's row: the resident bytes of all of its parts are

    // The run of free chunks that malloc_trim would have merged into one, from `run` to wherever the walk is. 0: none.
    uint64_t run;
    // The current page: how many chunks in use touch it, and the last of them.
    uint64_t page;
    uint32_t users;
    struct as_chunk user;
    AS_VEC(uint64_t) here; // sizes of the chunks in use on it, `users` of them
    struct as_fill_record fill[AS_FILL_CHUNKS][AS_FILL_EIGHTHS];
    uint64_t last_pin; // address of the chunk last counted as a pin
    // For the tail: the last chunk in use so far, and the free run below it.
    struct as_chunk last_in_use;
    uint64_t below_last;
    uint64_t free_since;
};

// Counting chunks onto the pages that they touch. Internal to ledger/.

// The sink of a ledger: counts a batch. False when our memory ran out, or a chunk record could not be written.
bool as_ledger_chunks(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t n);

// Adds an item to b->collected. False when our memory ran out.
bool as_ledger_collect(struct as_ledger_builder *b, uint64_t tagged);

// Counts a resident page on which no chunk is in use among those with stranded bytes, if it has such.
void as_ledger_count_unheld(struct as_ledger_builder *b, const struct as_page_record *page);

// No more chunks of this heap will come. False when our memory ran out.
bool as_ledger_chunks_end(struct as_ledger_builder *b, uint64_t end);

// Writes chunk records (model/records.h, section "chunks") to a file during the walk: there may be far more of them than
// we may hold in memory.
enum { AS_CHUNK_BUFFER = 16384 };

struct as_chunk_writer {
    int fd;
    uint64_t start;  // in the file, of the first record
    uint64_t offset; // in the file, of the next flush
    uint64_t count;  // records so far
    size_t pending;
    uint32_t buffer[AS_CHUNK_BUFFER];
};

// Both false with AS_IO when the file cannot take it.
bool as_chunk_write(struct as_chunk_writer *w, struct as_chunk chunk, struct as_error *err);
bool as_chunk_flush(struct as_chunk_writer *w, struct as_error *err);
