// SPDX-License-Identifier: MIT
// The memory of PartitionAlloc, Chromium's malloc. Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Adds a record and the regions of PartitionAlloc's pools, if they are found by its structures: *found. To be called of a target
// that stands still. False (AS_NO_MEMORY): our memory ran out.
bool as_partitionalloc_find(struct as_target *t, struct as_store *store, bool *found, struct as_error *err);
