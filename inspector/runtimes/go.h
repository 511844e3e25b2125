// SPDX-License-Identifier: MIT
// The heap of a Go program in a target, found from outside by structure, with no symbols (go.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Searches for the arenas of Go's heap in a target that stands still and whose residency is known. `program`: where the
// program is mapped, if it is one of Go's (as_malloc.go_program); 0: it is not. A record of the arenas is added to `store`: with their
// regions, or with state AS_REGIONS_UNPROVEN, and a warning. False (AS_NO_MEMORY): our memory ran out.
bool as_go_find(struct as_target *t, uint64_t program, struct as_store *store, struct as_error *err);
