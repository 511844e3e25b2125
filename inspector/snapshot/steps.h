// SPDX-License-Identifier: MIT
// The steps of one snapshot that are files of their own. Internal to snapshot/.
#pragma once

#include "ledger/ledger.h"
#include "libc/libc.h"
#include "malloc/heaps.h"
#include "model/store.h"
#include "runtimes/jvm.h"
#include "runtimes/variable_words.h"
#include "snapshot/snapshot_options.h"

// The runtimes of a target in one snapshot: what they have beside malloc, and their objects.

// Finds the heap of a runtime that is proven pool by pool, which is CPython's, before malloc's: *foreign gets its pages, in which
// no mmapped chunk begins. `pages`: what lies on each of them is wanted. `words`: kept for the other finders, and then to be freed.
// AS_NO_MEMORY.
bool as_runtimes_find_first(struct as_target *t, const struct as_malloc *m, bool pages, struct as_variable_words *words,
                            struct as_store *s, as_span_vec *foreign, struct as_error *err);

// Finds the others, once malloc's heaps are in the store: what overlaps those is not believed. AS_NO_MEMORY.
bool as_runtimes_find(struct as_target *t, const struct as_malloc *m, const struct as_hotspot *hotspot, bool pages,
                      struct as_variable_words *words, struct as_store *s, struct as_error *err);

// Counts their objects by type, after the walk, in its chunks. `counting`: NULL: that is not wanted. `running`: the target was not
// stopped, so that all numbers are estimates. AS_NO_MEMORY.
bool as_runtimes_count_objects(struct as_ledger_builder *b, const struct as_malloc *m,
                               const struct as_object_counting *counting, bool running, struct as_error *err);

// Between what the finders found and the records of the store.

// Copies one of the target's strings into the store's; its offset there.
uint32_t as_records_string(struct as_store *s, const struct as_target *t, uint32_t offset);

// Makes the records of mappings, mallocs, arenas and threads. False when our memory ran out.
bool as_records_copy(struct as_store *s, const struct as_heaps *h, struct as_error *err);

// Walks and counts all arenas, several at once: each worker takes one arena after another, reads it through a window of its
// own, walks what it has just read while that is in its processor's cache, and counts it at once. What it made is added to the
// store in the order of the arenas, not in that of the workers. Inside a target there is one worker, the calling thread.

// Counts everything that `h` has in arenas; h->heaps and the faults are as the walk found them then. `total` is an open ledger,
// whose sizes are complete afterwards. False and `err` when memory ran out or a record could not be written.
bool as_pool_walk(struct as_heaps *h, struct as_ledger_builder *total, const struct as_arena_hold *hold,
                  struct as_error *err);
