// SPDX-License-Identifier: MIT
// The heap of a Go program in a target, found from outside by structure, with no symbols (go.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Looks for the arenas of Go's heap in a target that stands still and whose residency has been captured. If the program is one of
// Go's, a record of them is added to `store`: with their regions, or with state AS_REGIONS_UNPROVEN, and a warning. False
// (AS_NO_MEMORY): our memory ran out.
bool as_go_find(struct as_target *t, struct as_store *store, struct as_error *err);
