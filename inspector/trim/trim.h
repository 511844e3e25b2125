// SPDX-License-Identifier: MIT
// Giving memory back from inside: what malloc_trim(0) does, and what it does not. Runs in the process whose malloc it works on,
// in a thread of its own, under one arena's lock at a time (lock.h says what that takes), and allocates nothing from malloc.
//
// A pass goes through an arena's bins, as malloc_trim does. Bounded, it releases the lock after a slice of work, and
// continues when it has the lock again: bins.c says how, and why nothing is ever half done while the lock is released.
// docs/trim.md has the proof and the figures.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "libc/libc.h"
#include "model/view.h"
#include "target/target.h"
#include "trim/request.h"

#include <stdbool.h>
#include <stdint.h>

struct as_trim_arena {
    struct as_arena_place place; // its name on every surface
    uint64_t address;
    uint64_t
        resident; // bytes of its heaps in memory, before; AS_UNKNOWN: not told from what is not malloc's, or skipped
    // What a forecast, or the trim itself, found free and in memory; AS_UNKNOWN: skipped, or the kernel did not tell of every
    // page whether it was in memory.
    uint64_t releasable, withheld;
    uint64_t releasable_most, withheld_most; // as much at most; 0 where skipped
    uint64_t returned;        // resident bytes that are not any more, by the kernel's page tables; AS_UNKNOWN likewise
    uint64_t returned_swap;   // AS_UNKNOWN: only mincore could be asked
    uint64_t released;        // bytes handed to madvise, resident or not; AS_UNKNOWN: malloc_trim has done it
    uint64_t longest_hold_ns; // likewise
    bool skipped;             // its data are corrupt, or it stayed locked
};

struct as_trim_outcome {
    AS_VEC(struct as_trim_arena) arenas;
    uint64_t elapsed_ns, cpu_ns;
    char note[512]; // what was left undone and why; "" when nothing
};

// What a trim would return, arena by arena. Changes nothing but, where the lock's time is bounded, the order in some lists.
// `self` is this process (as_target_open_self, not counted), opened just now: its list of mappings is used. AS_UNSUPPORTED
// where malloc's layout is not proven; AS_NO_MALLOC; AS_USAGE when `only` is no arena. Free `out` in any case.
bool as_trim_forecast(struct as_target *self, const struct as_malloc *m, const struct as_trim_request *request,
                      struct as_trim_outcome *out, struct as_error *err);
// Trims. False when nothing could be done, as above; an arena that makes no sense is skipped and said to be.
bool as_trim_run(struct as_target *self, const struct as_malloc *m, const struct as_trim_request *request,
                 struct as_trim_outcome *out, struct as_error *err);
void as_trim_free(struct as_trim_outcome *out);

// The lock of one arena of the process we run in: libc's own low-level lock (malloc_state.mutex), taken and given back as
// libc does.
//
// What must hold for it to protect anything: this process has had a second thread since before any of its threads entered
// the malloc that it is in now. For a process with one thread libc takes no lock at all (SINGLE_THREAD_P, from 2.27), and it
// asks once, on its way in. The agent's thread is that second thread, and is started from outside of malloc only.
//
// While a lock is held: no call that could lead into malloc, none that can block, and no word outside of what that arena owns.

// Takes the lock of the arena at this address, `mutex_offset` (as_state_layout.mutex) into it. Waits in the kernel while it
// is held, until `deadline_ns` (CLOCK_MONOTONIC) at most: false then, and also where its word is none of the values that
// libc's locks have.
bool as_arena_lock(uint64_t arena, int32_t mutex_offset, uint64_t deadline_ns);

// Releases the lock and wakes one thread that waits. True when a thread waited: the caller should sleep for a while, because
// libc's lock is not handed over: a running thread gets it before one that has to wake up.
bool as_arena_unlock(uint64_t arena, int32_t mutex_offset);
