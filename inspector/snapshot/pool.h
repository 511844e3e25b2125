// SPDX-License-Identifier: MIT
// Walks and counts all arenas, several at once: each worker takes one arena after another, reads it through a window of its
// own, walks what it has just read while that is in its processor's cache, and counts it at once. What it made is added to the
// store in the order of the arenas, not in that of the workers. Inside a target there is one worker, the calling thread.
#pragma once

#include "ledger/ledger.h"
#include "model/store.h"
#include "snapshot/snapshot_options.h"

// Counts everything that `h` has in arenas; h->heaps and the faults are as the walk found them then. `total` is an open ledger,
// whose sizes are complete afterwards. False and `err` when memory ran out or a record could not be written.
bool as_pool_walk(struct as_heaps *h, struct as_ledger_builder *total, const struct as_arena_hold *hold,
                  struct as_error *err);
