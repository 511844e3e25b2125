// SPDX-License-Identifier: MIT
// The runtimes of a target in one snapshot: what they have beside malloc, and their objects. Internal to snapshot/.
#pragma once

#include "ledger/ledger.h"
#include "libc/libc.h"
#include "runtimes/jvm.h"
#include "snapshot/snapshot_options.h"

// Finds the heap of a runtime that is proven pool by pool, which is CPython's, before malloc's: *foreign gets its pages, in which
// no mmapped chunk begins. `pages`: what lies on each of them is wanted. AS_NO_MEMORY.
bool as_runtimes_find_first(struct as_target *t, const struct as_malloc *m, bool pages, struct as_store *s,
                            as_span_vec *foreign, struct as_error *err);

// Finds the others, once malloc's heaps are in the store: what overlaps those is not believed. AS_NO_MEMORY.
bool as_runtimes_find(struct as_target *t, const struct as_malloc *m, const struct as_hotspot *hotspot, bool pages,
                      struct as_store *s, struct as_error *err);

// Counts their objects by type, after the walk, in its chunks. `counting`: NULL: that is not wanted. `running`: the target was not
// stopped, so that all numbers are estimates. AS_NO_MEMORY.
bool as_runtimes_count_objects(struct as_ledger_builder *b, const struct as_object_counting *counting, bool running,
                               struct as_error *err);
