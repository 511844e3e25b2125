// SPDX-License-Identifier: MIT
// The bytes of a target. This interface never writes, knows no malloc and no threads, and does not stop the target: what is
// read of a running target may change from one call to the next.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct as_target;

// What a backend (a process, a core, ourselves, a test) provides.
struct as_memory_ops {
    // Copies up to `length` bytes at `address` into `buffer`; returns how many, counted from the start, could be
    // read: short when a page in between cannot be. Holes of a core read as zeros.
    size_t (*read)(struct as_target *t, uint64_t address, void *buffer, size_t length);
    // From where on something may be readable again: `address` itself, unless it is known that a stretch of memory begins
    // there of which nothing can be read (a core's that is not in its file). NULL: that is never known.
    uint64_t (*missing_until)(struct as_target *t, uint64_t address);
    // The bytes themselves when they lie in our own address space (self, a mapped core), else NULL. *length is
    // lowered to what is contiguous. NULL as an operation: never.
    const void *(*in_place)(struct as_target *t, uint64_t address, size_t *length);
    // As read, of what a clone has not got (mapping.out_of_reach): from the target itself, which runs. NULL: there is no clone ever.
    size_t (*read_kept)(struct as_target *t, uint64_t address, void *buffer, size_t length);
    // What as_target_gather does, where the backend has something better than one read after the other; may be NULL.
    void (*gather)(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                   size_t stride, bool *ok);
};

// Reads exactly `length` bytes or returns false. No error text: the caller knows what it was after. Of a stopped target this
// and all that follow leave absent pages alone (as_target_read_resident).
bool as_target_read(struct as_target *t, uint64_t address, void *buffer, size_t length);
bool as_target_read_u64(struct as_target *t, uint64_t address, uint64_t *value);

// Reads exactly `length` bytes of memory that the clone which we inspect has not got (mapping.out_of_reach) from the target itself,
// or returns false. The target runs, so what is read may have changed since the clone was made, or change now.
bool as_target_read_kept(struct as_target *t, uint64_t address, void *buffer, size_t length);

// Reads `length` bytes at each of `count` addresses into `out`, `stride` bytes apart, in few system
// calls; ok[i] says whether address i could be read.
void as_target_gather(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                      size_t stride, bool *ok);

// As as_target_gather, of many addresses of a process by as many threads as there are processors.
void as_target_gather_wide(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                           size_t stride, bool *ok);

// For a search through memory: the first address from `address` on that is not known to be missing
// (as_memory_ops.missing_until).
uint64_t as_target_skip_missing(struct as_target *t, uint64_t address);

// May pages be read that are swapped out? They count against the target's limits of memory then, for which the kernel may kill it. False:
// t->residency.no_room says which limit is too near for all of them; what is read of them fails, until as_target_ask_anew.
bool as_target_may_fetch(struct as_target *t);
void as_target_ask_anew(struct as_target *t);

// As as_memory_ops.read, but of a stopped target absent pages are not touched: they are zeros; and what comes back from swap
// is sent there again at once, as far as we may.
size_t as_target_read_resident(struct as_target *t, uint64_t address, void *buffer, size_t length);

// Sends pages to swap again that were swapped out when residency was recorded and came back by being read, as far as we may.
// Reads do so already, but the kernel moves no page that another processor has at hand. Quick while residency.preparing.
void as_target_send_back(struct as_target *t);
// How many bytes of such pages are in memory now.
uint64_t as_target_brought_back(struct as_target *t);
