// SPDX-License-Identifier: MIT
// The consistency modes: how a target is caught so that what is read of it is one instant, and which way costs it least.
// docs/safety.md tells users.
#pragma once

#include "libc/libc.h"
#include "model/records.h"
#include "model/store.h"
#include "snapshot/snapshot_options.h"
#include "target/target.h"

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
