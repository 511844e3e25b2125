// SPDX-License-Identifier: MIT
// The lock of one arena of the process we run in: libc's own low-level lock (malloc_state.mutex), taken and given back as
// libc does.
//
// What must hold for it to protect anything: this process has had a second thread since before any of its threads entered
// the malloc that it is in now. For a process with one thread libc takes no lock at all (SINGLE_THREAD_P, from 2.27), and it
// snapshots once, on its way in. The agent's thread is that second thread, and is started from outside of malloc only.
//
// While a lock is held: no call that could lead into malloc, none that can block, and no word outside of what that arena owns.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

// Takes the lock of the arena at this address, `mutex_offset` (as_state_layout.mutex) into it. Waits in the kernel while it
// is held, until `deadline_ns` (CLOCK_MONOTONIC) at most: false then, and also where its word is none of the values that
// libc's locks have.
bool as_arena_lock(uint64_t arena, int32_t mutex_offset, uint64_t deadline_ns);

// Releases the lock and wakes one thread that waits. True when a thread waited: the caller should sleep for a while, because
// libc's lock is not handed over: a running thread gets it before one that has to wake up.
bool as_arena_unlock(uint64_t arena, int32_t mutex_offset);
