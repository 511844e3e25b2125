// SPDX-License-Identifier: MIT
// What the parts of a trim share: one pass over one arena, in slices. Internal to trim/.
//
// A slice is what happens under one hold of the arena's lock. At its beginning everything that is known of the arena is read
// anew (memory.c), so that nothing from an earlier slice is relied upon but addresses of pages, which are only ever compared.
#pragma once

#include "malloc/heaps.h"
#include "trim/trim.h"

#include <sys/uio.h>

// What a pass knows of one page, a byte each.
enum {
    AS_PAGE_IN_MEMORY = 1, // when the pass began
    AS_PAGE_IN_SWAP = 2,
    AS_PAGE_LEFT = 4,      // either of these, and still to be given back if it turns out to be free
    AS_PAGE_FREE = 8,      // whole and free: what malloc_trim returns
    AS_PAGE_FREE_TOP = 16, // whole and free, but malloc_trim would not return it
    AS_PAGE_GIVEN = 32,    // handed to madvise, which took it
    AS_PAGE_REFUSED = 64,  // which refused it
    AS_PAGE_UNSURE =
        128, // the kernel did not say whether it is in memory; treated as if it were, but not counted as known
};

// A run of pages; those of its bytes in as_pass.pages begin at `first`.
struct as_region {
    uint64_t start, end;
    size_t first;
};

enum as_progress {
    AS_ALL_DONE, // of what was asked for
    AS_TIME_UP,  // the lock has been held for long enough
    AS_NONSENSE, // malloc's data are not what they must be (as_pass.fault): hands off
};

// How far a pass has come through the bins (lists.c).
struct as_place {
    int bin;         // bins[] has two words for each, bin 1 (unsorted) first
    uint64_t size;   // of chunks: smaller ones in this bin are done
    uint64_t marker; // the chunk of this size that was looked at first; 0: none yet
    uint64_t seen;   // bytes in chunks of this size that were looked at
};

// Ranges of pages on their way back to the kernel. Always empty when the lock is opened: as_slice_end sees to that.
enum { AS_BATCH = 64 };
struct as_batch {
    struct iovec ranges[AS_BATCH];
    uint8_t *marks[AS_BATCH]; // what the pass knows of their pages
    size_t count, pages;
    bool unable; // the kernel does not take several at a time
};

struct as_pass {
    struct as_target *self;
    const struct as_libc *libc;
    const struct as_par *par;
    const struct as_trim_request *request;
    uint64_t arena;
    bool main;
    bool forecast; // find out only, give nothing back

    // The arena, as of the beginning of the slice.
    AS_VEC(struct as_range) memory; // in which its chunks lie, by address
    size_t near;                    // the last of them that was asked about
    uint64_t top, top_size, system_mem;
    uint32_t flags;
    const char *fault;

    // Its pages, as of the beginning of the pass.
    AS_VEC(struct as_region) regions; // by address
    AS_VEC(uint8_t) pages;
    uint64_t page_size;

    struct as_batch batch;
    struct as_place place;
    AS_VEC(uint64_t) fast; // for a forecast: the members of fastbins, by address once all are listed
    uint64_t merged_top;   // for a forecast: where the top would begin once they are merged; 0: where it does

    // Time, in nanoseconds.
    uint64_t slice; // to hold the lock for, about; UINT64_MAX: as long as it takes
    uint64_t began, longest;
    uint64_t page_ns;   // what a page costs to give back, as measured
    unsigned unwatched; // steps since the clock was looked at

    uint64_t released; // bytes handed to madvise
    int refusal;       // errno of the last madvise that failed; 0: none did
};

// memory.c
// Takes the lock and reads the arena. False: the lock was not to be had (fault is NULL), or what was read makes no sense.
bool as_slice_begin(struct as_pass *p, struct as_error *err);
// Gives back what is still to be, then the lock; stays away for a while where others wait for it.
void as_slice_end(struct as_pass *p);
// Has the lock been held for long enough? Asks the clock once in a while only; `now`: this time.
bool as_slice_over(struct as_pass *p, bool now);
// True when `length` bytes at `address` are the arena's memory.
bool as_pass_owns(struct as_pass *p, uint64_t address, uint64_t length);
// Notes what is wrong.
enum as_progress as_nonsense(struct as_pass *p, const char *what);

// A word of memory that is the arena's, or of its malloc_state. No other thread writes it while we hold the lock, but in a
// fastbin's chunks.
static inline uint64_t as_word(uint64_t address)
{
    return __atomic_load_n((const uint64_t *)(uintptr_t)address, __ATOMIC_RELAXED);
}
static inline void as_set_word(uint64_t address, uint64_t value)
{
    __atomic_store_n((uint64_t *)(uintptr_t)address, value, __ATOMIC_RELAXED);
}

// pages.c
// Learns which pages there are and what the kernel says of them. To be called with the lock open, after a slice.
bool as_pages_read(struct as_pass *p, struct as_error *err);
// Makes all of them left to be given back again.
void as_pages_rearm(struct as_pass *p);
// Has the whole pages in [from, to) that are left given back, from the end downwards, or only marks them with `mark` (a forecast):
// at once or with the next batch, before the lock is opened at the latest. Until then nothing in them may be used.
enum as_progress as_pages_release(struct as_pass *p, uint64_t from, uint64_t to, uint8_t mark);
// Gives back what the batch holds. To be called with the lock held.
void as_pages_flush(struct as_pass *p);
// How many bytes have all of `set`; of pages that may not have been in memory, as many as there are at most.
uint64_t as_pages_at_most(const struct as_pass *p, uint8_t set);
// The same; AS_UNKNOWN where it may be less.
uint64_t as_pages_count(const struct as_pass *p, uint8_t set);
// How many bytes that were in memory (or in swap) when the pass began, and are of those with `set`, are neither now. AS_UNKNOWN
// where the kernel does not tell.
bool as_pages_returned(struct as_pass *p, uint8_t set, uint64_t *memory, uint64_t *swap, struct as_error *err);

// fastbins.c
// Merges what is in fastbins with what is free around it. From as_pass.place on, as all of these: {0} at the beginning.
enum as_progress as_fastbins_trim(struct as_pass *p);
// For a forecast, one after the other: lists the members in as_pass.fast, as long as there is room; sorts them, with the lock
// open; counts what merging them would make whole.
enum as_progress as_fastbins_list(struct as_pass *p);
bool as_fastbins_sort(struct as_pass *p, struct as_error *err);
enum as_progress as_fastbins_forecast(struct as_pass *p);

// lists.c
// Goes on through the bins, from as_pass.place on: {0} at the beginning of a pass.
enum as_progress as_lists_trim(struct as_pass *p);

// top.c
// Gives back what is whole of the top: what malloc_trim would, and in a deep trim the rest, too.
enum as_progress as_top_trim(struct as_pass *p);
