// SPDX-License-Identifier: MIT
// Locks each arena while a snapshot walks it, so that malloc does not change the arena meanwhile.
#pragma once

#include "snapshot/snapshot.h"

struct as_arena_locks {
    uint64_t arena;      // address of the arena that is locked now; 0: none
    uint64_t since;      // when it was locked; CLOCK_MONOTONIC, nanoseconds
    uint64_t longest_ns; // for which an arena was locked
    uint64_t missed;     // arenas that could not be locked before the deadline
    uint64_t fresh;      // arenas that have been read again under their locks
};

// For as_snapshot_options.hold. `locks` is all zero, and must outlive the snapshot.
struct as_arena_hold as_arena_locks_hooks(struct as_arena_locks *locks);
