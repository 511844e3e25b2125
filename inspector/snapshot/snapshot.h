// SPDX-License-Identifier: MIT
// Takes one snapshot of a target: puts the stages in order (target, libc, malloc, ledger) and fills a store with
// the records of what they found.
#pragma once

#include "model/store.h"
#include "snapshot/snapshot_options.h"
#include "target/target.h"

// The target is stopped for as short as possible and always resumed. Free the store in
// either case. False only when nothing at all can be said; what is merely unknown is AS_UNKNOWN and has a warning.
bool as_snapshot_make(struct as_target *t, const struct as_snapshot_options *options, struct as_store *out,
                      struct as_error *err);
