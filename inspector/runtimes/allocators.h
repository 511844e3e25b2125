// SPDX-License-Identifier: MIT
// Allocators besides glibc's malloc, as far as their memory can be located.
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Adds to `store` a record of each such allocator, with its regions if they could be located. `answering`: which malloc the process
// uses; if that one is known and not located, its record has the state AS_REGIONS_UNPROVEN. To be called of a target that stands
// still and whose residency is known. False (AS_NO_MEMORY): our memory ran out.
bool as_allocators_find(struct as_target *t, enum as_malloc_kind answering, struct as_store *store,
                        struct as_error *err);
