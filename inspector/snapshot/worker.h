// SPDX-License-Identifier: MIT
// One worker of the pool (pool.h): walks and counts the arenas that it is given, one after the other.
#pragma once

#include "ledger/ledger.h"
#include "malloc/fastbins.h"
#include "malloc/walk_log.h"

#include <stdatomic.h>

// One arena: what its worker is given of it, and what the worker makes of it.
struct as_arena_job {
    uint32_t arena;
    size_t heap_count;                 // that were known before the walk
    bool in_place;                     // all arenas before it have been added to the store
    uint64_t sync_given, search_given; // of the budgets that all share
    struct as_heaps heaps;
    struct as_ledger_partial part;
    uint64_t torn;
    bool done;
};

void as_arena_job_free(struct as_arena_job *s);

struct as_worker {
    struct as_target *target;
    struct as_window window;
    struct as_ledger_builder ledger;
    // Memory that is used again for each arena, as to get it from the kernel takes longer than to fill it.
    struct as_fastbin_candidates candidates;
    as_address_vec members;
    struct as_walk_log_block *spare;
    // The heaps of an arena with fastbins, until these are known: blocks of a trace, oldest first.
    struct as_walk_log_block *held, **held_end;
};

// `like`: the ledger that all workers' are joined to. `busy`: how many workers are: a worker that is alone with its arena has
// another thread read on for it.
bool as_worker_open(struct as_worker *w, struct as_target *t, const struct as_ledger_builder *like,
                    const atomic_uint *busy, struct as_error *err);
// Walks and counts one arena. False when memory ran out, or a record could not be written.
bool as_worker_walk(struct as_worker *w, struct as_arena_job *s, struct as_error *err);
// Adds what was counted by size to `total` if `ok`, and frees everything.
bool as_worker_close(struct as_worker *w, struct as_ledger_builder *total, bool ok, struct as_error *err);
