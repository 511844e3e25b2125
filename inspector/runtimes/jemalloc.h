// SPDX-License-Identifier: MIT
// jemalloc's memory in a target, found from outside by structure, with no symbols (jemalloc.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Searches for a jemalloc (5.x, on 48-bit addresses and pages of 4 KiB) in a target that stands still and whose residency is
// known. *found: a record of it is added to `store`, with its regions: all extents, in use or not, and jemalloc's own blocks.
// False (AS_NO_MEMORY): our memory ran out.
bool as_jemalloc_find(struct as_target *t, struct as_store *store, bool *found, struct as_error *err);
