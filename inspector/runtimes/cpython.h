// SPDX-License-Identifier: MIT
// CPython's own heap in a target: the arenas of pymalloc, which have the objects and buffers of up to 512 bytes. Found from
// outside, with no symbols: by structure, and proven (cpython.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Looks for pymalloc's arenas in a target that stands still and whose residency has been captured, and adds them to `store`: a
// record of the runtime, its regions by address, its size classes. `resident` and `heap` of a region are the ledger's to fill
// in. No record: no CPython is mapped here. A record with state AS_REGIONS_UNPROVEN, and a warning: there is one, and its
// arenas were not found. False (AS_NO_MEMORY): our memory ran out.
bool as_cpython_find(struct as_target *t, struct as_store *store, struct as_error *err);
