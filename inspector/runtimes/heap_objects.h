// SPDX-License-Identifier: MIT
// The objects of runtimes, by type: of CPython's and Ruby's.
#pragma once

#include "base/error.h"
#include "libc/libc.h"
#include "model/store.h"
#include "target/target.h"

// Called by address, so that the agent, which never counts objects, has no such code in it.
struct as_object_counting {
    // From which size on the addresses of malloc's chunks in use are wanted; 0: none are.
    uint64_t (*chunks_from)(const struct as_malloc *m);
    // Counts, into the store. `chunks`: those addresses, ascending. False (AS_NO_MEMORY): our memory ran out.
    bool (*count)(struct as_target *t, const struct as_malloc *m, struct as_store *s, const uint64_t *chunks,
                  size_t count, struct as_error *err);
};

extern const struct as_object_counting as_object_counting;
