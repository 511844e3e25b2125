// SPDX-License-Identifier: MIT
// How malloc is kept out of one arena while that is walked: by the arena's own lock.
#pragma once

#include "capture/capture.h"

struct as_arena_locks {
    uint64_t arena;      // address of the arena whose lock is ours; 0: none
    uint64_t since;      // CLOCK_MONOTONIC, nanoseconds
    uint64_t longest_ns; // for which one was held
    uint64_t missed;     // arenas whose lock was not to be had
    uint64_t fresh;      // arenas that have been read under their locks
};

// For as_capture_options.hold; the context is a struct as_arena_locks, all zero.
struct as_arena_hold as_arena_locks_hooks(struct as_arena_locks *hold);
