// SPDX-License-Identifier: MIT
// Which pages of a target are resident, and how much of each mapping.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "target/mapping.h"

// What a backend provides.
struct as_residency_ops {
    // One byte of AS_RES_* per page of [start, end), both page-aligned. False: the kernel would not say (and `err`
    // why); pages of a target whose residency cannot be known at all are AS_RES_UNKNOWN, and that is success.
    bool (*pages)(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err);
    // From where on in [start, end), which is page-aligned, a page may be other than absent: that page, or one before it; `end`
    // where there is none. Costs what is resident there rather than what is reserved, as far as the kernel lets us: pagemap
    // (before Linux 6.7) has 8 bytes for each page, resident or not. NULL: that is never known.
    uint64_t (*absent_until)(struct as_target *t, uint64_t start, uint64_t end);
    // As `pages`, of the target itself while a clone of it is inspected (present or absent, no more). False: there is no clone, or
    // the kernel would not say. NULL: there is no clone ever.
    bool (*kept)(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages);
    // Reads the mappings anew, and what is resident of each of them now. NULL: it is never known.
    bool (*count)(struct as_target *t, struct as_error *err);
    // As count, of mappings that were read since the target was stopped, on a thread of its own: between the two nothing but
    // `pages` may be called. count_begin false: no thread could be started. NULL: it makes no sense.
    bool (*count_begin)(struct as_target *t);
    bool (*count_end)(struct as_target *t, struct as_error *err);
    // Has the kernel move pages to swap, as far as it will. NULL: reading brings nothing back from there.
    void (*page_out)(struct as_target *t, const struct as_range *ranges, size_t count);
    // Is there room for so many bytes to come back from swap, with a margin; 0: is the least left that must be at any time? False: `why`
    // says which limit is too near. NULL: there always is.
    bool (*has_room)(struct as_target *t, uint64_t bytes, char *why, size_t size);
};

enum { AS_NO_ROOM = 512 };
enum as_fetch { AS_FETCH_UNASKED = 0, AS_FETCH_ALLOWED, AS_FETCH_REFUSED };

// Sums over the mappings, bytes. AS_UNKNOWN in a core, and until the target is counted.
struct as_target_counts {
    uint64_t rss, swap, shared;
    bool pending; // the target stands still, and is counted by as_target_read_residency_map
};

// A running process's status as it was opened, bytes: it lags. AS_UNKNOWN: not known.
struct as_target_hint {
    uint64_t anonymous; // resident anonymous memory
    uint64_t swap;
};

struct as_target_residency {
    bool known;                      // false: a gcore, or a core file that lost its holes
    bool swap_unknown;               // residency does not tell whether a page is swapped (mincore)
    const char *note;                // why residency is not, or not wholly, known; NULL when it is exact
    AS_VEC(struct as_page_run) runs; // of the recorded mappings: what is not absent, by address
    bool preparing;                  // it was recorded, and the target is still to be stopped
    AS_VEC(struct as_range) fetched; // what was read from swap while preparing
    enum as_fetch fetch;             // may pages be read that are swapped out?
    char no_room[AS_NO_ROOM];        // why not
};

// Records the residency of all private anonymous memory of which anything is resident or swapped. Call it right after the stop
// and before any read: a read changes residency.
bool as_target_read_residency_map(struct as_target *t, struct as_error *err);

// One byte of AS_RES_* per page of [start, end): as recorded, else as the kernel says now (as_residency_ops.pages).
bool as_target_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err);

// Which pages of [start, end) the target itself has in its page tables, while a clone of it is inspected: of memory that a clone
// shares with it, or does not inherit. The target runs on. False: no clone is inspected, or the kernel would not say.
bool as_target_kept_pages(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages);

// How many bytes of [start, end), of any alignment, lie on resident pages; AS_UNKNOWN where that is not known of each of them.
uint64_t as_target_resident_bytes(struct as_target *t, uint64_t start, uint64_t end);

// For a search through memory: the first page of [start, end) that may be other than absent, as recorded, else as the kernel
// says now; or one before it; `end`: there is none.
uint64_t as_target_skip_absent(struct as_target *t, uint64_t start, uint64_t end);

// The index of the first recorded run that ends behind `address`; residency.runs.count when there is none.
size_t as_residency_run_from(const struct as_target *t, uint64_t address);
