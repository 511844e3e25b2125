// SPDX-License-Identifier: MIT
// What the caller of a capture chooses.
#pragma once

#include "base/error.h"
#include "model/enums.h"
#include "runtimes/objects.h"

#include <stdint.h>

// How the agent, which looks at its own process, keeps malloc out of an arena while that is walked.
struct as_heaps;
struct as_malloc;
struct as_arena_hold {
    // Before the walk of arena `arena` of h, whose heaps begin at index `heap`; may read both anew. False: no memory.
    bool (*take)(void *context, struct as_heaps *h, uint32_t arena, uint32_t heap, struct as_error *err);
    void (*release)(void *context, struct as_heaps *h); // after it
    void *context;
};

struct as_capture_options {
    int chunk_fd;                             // the file for chunk records, or -1
    uint64_t chunk_start;                     // where in that file they begin, bytes
    const struct as_object_counting *objects; // counts the runtimes' objects by type; NULL: they are not wanted
    uint32_t allowed_sources;                 // AS_LAYOUT_ANY, or fewer for tests
    enum as_mode mode;                        // freeze, snapshot or live; 0: freeze or snapshot, as max_pause_ns allows
    uint64_t max_pause_ns;                    // how long the target may stand still where there is a choice; 0: 50 ms
    const struct as_arena_hold *hold;         // NULL: nothing holds an arena
    const struct as_malloc *malloc;           // found before; NULL: it is to be found
};
