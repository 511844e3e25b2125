// SPDX-License-Identifier: MIT
// What is in use in a process when a profile of it begins.
#pragma once

#include "cli/options.h"
#include "profile/growth.h"

// Walks the chunks of o->target; with --graph, it counts them by type, too. Where there is no memory for the graph, it says so, and counts
// them by size alone. Free `out` if it returns true (as_profile_baseline_free). AS_NO_MALLOC: none of them are glibc's; or as as_snapshot_make.
bool as_baseline_take(const struct as_options *o, struct as_profile_baseline *out, struct as_error *err);
