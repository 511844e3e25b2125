// SPDX-License-Identifier: MIT
// What the parts of a trim share: one pass over one arena, in slices. Internal to trim/.
//
// A slice is what happens under one hold of the arena's lock. At its beginning everything that is known of the arena is read
// anew (slice.c), so that nothing from an earlier slice is relied upon but addresses of pages, which are only ever compared.
#pragma once

#include "malloc/heaps.h"
#include "trim/request.h"

#include <sys/uio.h>

// What a pass knows of one page, a byte each.
enum {
    AS_TRIM_RESIDENT = 1, // when the pass began
    AS_TRIM_SWAPPED = 2,
    AS_TRIM_PENDING = 4,    // either of these, and not released yet
    AS_TRIM_RELEASABLE = 8, // whole and free: what malloc_trim returns
    AS_TRIM_WITHHELD = 16,  // whole and free, but malloc_trim would not return it
    AS_TRIM_RELEASED = 32,  // handed to madvise, which took it
    AS_TRIM_REFUSED = 64,   // which refused it
    AS_TRIM_UNCERTAIN =
        128, // the kernel did not say whether it is in memory; treated as if it were, but not counted as known
};

// A run of pages; those of its bytes in as_trim_pass.pages begin at `first`.
struct as_trim_region {
    uint64_t start, end;
    size_t first;
};

enum as_trim_progress {
    AS_TRIM_DONE,    // of what was asked for
    AS_TRIM_TIME_UP, // the lock has been held for long enough
    AS_TRIM_CORRUPT, // malloc's data are not what they must be (as_trim_pass.fault): nothing is written any more
};

// How far a pass has come through the bins (bins.c).
struct as_trim_cursor {
    int bin;         // bins[] has two words for each, bin 1 (unsorted) first
    uint64_t size;   // of chunks: smaller ones in this bin are done
    uint64_t marker; // the chunk of this size that was inspected first; 0: none yet
    uint64_t seen;   // bytes in chunks of this size that were inspected
};

// Ranges of pages on their way back to the kernel. Always empty when the lock is released (as_trim_slice_end).
enum { AS_TRIM_BATCH = 64 };
struct as_trim_batch {
    struct iovec ranges[AS_TRIM_BATCH];
    uint8_t *marks[AS_TRIM_BATCH]; // what the pass knows of their pages
    size_t count, pages;
    bool unable; // the kernel does not take several at a time
};

struct as_trim_pass {
    struct as_target *self;
    const struct as_libc *libc;
    const struct as_par *par;
    const struct as_trim_request *request;
    uint64_t arena;
    bool main;
    bool forecast; // find out only, give nothing back

    // The arena, as of the beginning of the slice.
    AS_VEC(struct as_range) memory; // in which its chunks lie, by address
    size_t last_range;              // the last of them that was asked about
    uint64_t top, top_size, system_mem;
    uint32_t flags;
    const char *fault;

    // Its pages, as of the beginning of the pass.
    AS_VEC(struct as_trim_region) regions; // by address
    AS_VEC(uint8_t) pages;
    uint64_t page_size;

    struct as_trim_batch batch;
    struct as_trim_cursor cursor;
    AS_VEC(uint64_t) fast; // for a forecast: the members of fastbins, by address once all are listed
    uint64_t merged_top;   // for a forecast: where the top would begin once they are merged; 0: where it does

    // Time, in nanoseconds.
    uint64_t slice; // to hold the lock for, about; UINT64_MAX: as long as it takes
    uint64_t began, longest;
    uint64_t page_ns;   // what a page costs to give back, as measured
    unsigned unwatched; // steps since the clock was inspected

    uint64_t released; // bytes handed to madvise
    int refusal;       // errno of the last madvise that failed; 0: none did
};

// Has the lock been held for long enough? Asks the clock once in a while only; `now`: this time.
bool as_trim_time_up(struct as_trim_pass *p, bool now);
// True when `length` bytes at `address` are the arena's memory.
bool as_trim_owns(struct as_trim_pass *p, uint64_t address, uint64_t length);
// Sets p->fault and returns AS_TRIM_CORRUPT.
enum as_trim_progress as_trim_corrupt(struct as_trim_pass *p, const char *what);

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

// The parts, each in the file of its name. All but a slice go on from as_trim_pass.cursor, {0} at the beginning of a pass.

// One hold of the arena's lock: takes it and reads the arena. False: the arena stayed locked (fault is NULL), or what was read makes no
// sense. The end returns the pages of the batch, releases the lock, and sleeps for a while where other threads wait for it.
bool as_trim_slice_begin(struct as_trim_pass *p, struct as_error *err);
void as_trim_slice_end(struct as_trim_pass *p);

// The fastbins (to 2.42): merges what is in them with what is free around it.
enum as_trim_progress as_trim_fastbins_trim(struct as_trim_pass *p);
// For a forecast, one after the other: lists the members in as_trim_pass.fast, as long as there is room; sorts them, without the
// lock; counts what merging them would make whole.
enum as_trim_progress as_trim_fastbins_list(struct as_trim_pass *p);
bool as_trim_fastbins_sort(struct as_trim_pass *p, struct as_error *err);
enum as_trim_progress as_trim_fastbins_forecast(struct as_trim_pass *p);

enum as_trim_progress as_trim_bins(struct as_trim_pass *p);
// Gives back what is whole of the top: what malloc_trim would, and in a deep trim the rest, too.
enum as_trim_progress as_trim_top(struct as_trim_pass *p);
