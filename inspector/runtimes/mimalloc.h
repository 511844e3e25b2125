// SPDX-License-Identifier: MIT
// The memory of mimalloc in a target, found from outside by structure, with no symbols (mimalloc.c). Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Searches for mimalloc's segments in a target that stands still and whose residency is known. *found: a record of it is added
// to `store`, with its regions. False (AS_NO_MEMORY): our memory ran out.
bool as_mimalloc_find(struct as_target *t, struct as_store *store, bool *found, struct as_error *err);

// As as_mimalloc_find, for mimalloc 3, which has nothing in common with 2: *found, or there is no record of it.
bool as_mimalloc3_find(struct as_target *t, struct as_store *store, bool *found, struct as_error *err);
