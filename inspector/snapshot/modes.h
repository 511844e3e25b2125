// SPDX-License-Identifier: MIT
// The consistency modes: how a target is caught so that what is read of it is one moment, and which way costs it least.
// docs/consistency.md tells users.
#pragma once

#include "dump/format.h"
#include "libc/libc.h"
#include "snapshot/snapshot.h"
#include "target/target.h"

// How a target was caught.
struct as_moment {
    enum as_mode mode;   // in force; never 0
    bool locked;         // in a core: an arena was
    char fallback[1024]; // why it is not the mode that was asked for or would have been chosen; "" when it is
};

// Stops the target, or makes it clone itself, or does neither, as options->mode says; ops->resume undoes it. Refreshes what
// `m` keeps of the target's mappings. False: the target could not be caught, and runs.
bool as_moment_catch(struct as_target *t, struct as_malloc *m, const struct as_snapshot_options *options,
                     struct as_moment *out, struct as_error *err);

// Warns of what the moment was not.
void as_moment_report(const struct as_moment *moment, const struct as_target *t, struct as_snapshot *s);
