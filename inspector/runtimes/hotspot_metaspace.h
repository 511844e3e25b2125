// SPDX-License-Identifier: MIT
// Where HotSpot's metaspace is. Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "runtimes/hotspot.h"

struct as_hotspot_metaspace {
    AS_VEC(struct as_range) nodes; // reserved ranges; to be freed
    uint64_t committed;            // bytes of them, as the JVM counts them
    size_t lists;                  // 2, or 1 where there is no space for classes of their own; 0: none that is proven
};

// Searches for the lists of metaspace's ranges in a target that stands still (Java 16 on). What the mappings are is to be compared still.
// False (AS_NO_MEMORY): our memory ran out.
bool as_hotspot_metaspace_find(const struct as_hotspot *h, struct as_hotspot_metaspace *out, struct as_error *err);
