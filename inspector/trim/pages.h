// SPDX-License-Identifier: MIT
// Which of an arena's pages are in memory, and releasing them to the kernel. Internal to trim/.
#pragma once

#include "trim/pass.h"

// Asks the kernel about the arena's pages. To be called without the lock, after a slice.
bool as_trim_pages_read(struct as_trim_pass *p, struct as_error *err);
// Makes all pages in memory or in swap AS_TRIM_PENDING again.
void as_trim_pages_reset(struct as_trim_pass *p);
// Returns the pending whole pages in [from, to) to the kernel, from the end downwards, or only marks them with `mark` (a
// forecast): at once or with the next batch, before the lock is released at the latest. Until then nothing may use them.
enum as_trim_progress as_trim_pages_release(struct as_trim_pass *p, uint64_t from, uint64_t to, uint8_t mark);
// Returns the pages of the batch to the kernel. To be called with the lock held.
void as_trim_pages_flush(struct as_trim_pass *p);
// How many bytes have all of `set`; of pages that may not have been in memory, as many as there are at most.
uint64_t as_trim_pages_at_most(const struct as_trim_pass *p, uint8_t set);
// The same; AS_UNKNOWN where it may be less.
uint64_t as_trim_pages_count(const struct as_trim_pass *p, uint8_t set);
// How many bytes that were in memory (or in swap) when the pass began, and are of those with `set`, are neither now. AS_UNKNOWN
// where the kernel does not tell.
bool as_trim_pages_returned(struct as_trim_pass *p, uint8_t set, uint64_t *memory, uint64_t *swap,
                            struct as_error *err);
