// SPDX-License-Identifier: MIT
// The steps of one snapshot that are files of their own. Internal to snapshot/.
#pragma once

#include "ledger/ledger.h"
#include "libc/libc.h"
#include "malloc/fastbins.h"
#include "malloc/heaps.h"
#include "malloc/walk_log.h"
#include "model/records.h"
#include "model/store.h"
#include "runtimes/jvm.h"
#include "runtimes/variable_words.h"
#include "snapshot/snapshot_options.h"
#include "target/target.h"

#include <stdatomic.h>

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

// One worker of the pool (pool.h): walks and counts the arenas that it is given, one after the other.

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

// The consistency modes: how a target is caught so that what is read of it is one instant, and which way costs it least.
// docs/safety.md tells users.

// How a target was caught.
struct as_stop_plan {
    enum as_mode mode;   // in force; never 0
    bool locked;         // in a core: an arena was
    char fallback[1024]; // why it is not the mode that was asked for or would have been chosen; "" when it is
    char exceeded[1024]; // why an attempt to stop it was given up; "" when none was
    bool incomplete;     // the clone lacked memory of malloc's
    uint64_t stood_ns;   // how long the target stood still for such attempts
};

// How to begin: the mode that options->mode asks for, or chooses by the target's size.
struct as_stop_plan as_stop_plan_make(const struct as_target *t, const struct as_snapshot_options *options);

// Stops the target, or makes it clone itself, or does neither, as plan->mode says; ops->stop.resume undoes it. Refreshes what
// `m` keeps of the target's mappings. False: the target could not be caught, and runs.
bool as_stop_plan_catch(struct as_target *t, struct as_malloc *m, const struct as_snapshot_options *options,
                        struct as_stop_plan *plan, struct as_error *err);

// After a snapshot: whether the clone, if one was inspected, had all of malloc's memory. False: a program may keep memory from
// its children (MADV_DONTFORK, MADV_WIPEONFORK), and of what was found some is there, or may be. plan->incomplete then, and
// `err` says what. `torn`: chains of chunks broke.
struct as_heaps;
bool as_stop_plan_is_whole(const struct as_target *t, const struct as_malloc *m, const struct as_heaps *h, bool torn,
                           struct as_stop_plan *plan, struct as_error *err);

// After a snapshot that failed with `err`: true if another mode, now in plan->mode, is to be tried, because this one would
// have held the target for too long, and the choice was ours; or because the clone lacked memory.
bool as_stop_plan_yield(const struct as_target *t, const struct as_snapshot_options *options, struct as_stop_plan *plan,
                        const struct as_error *err);

// Warns of what the stop was not.
void as_stop_plan_report(const struct as_stop_plan *plan, const struct as_target *t, struct as_store *s);
