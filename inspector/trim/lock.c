// SPDX-License-Identifier: MIT
// The protocol (nptl/lowlevellock.c, sysdeps/nptl/lowlevellock.h, the same from 2.17 to 2.44): 0 free, 1 taken, 2 taken and
// somebody may wait. Taking it: 0 to 1, else exchange with 2 until it was 0, waiting on 2. Giving it back: exchange with 0, and
// wake one if it was 2. All waits are private to the process.
#include "base/clock.h"
#include "trim/trim.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FREE = 0, TAKEN = 1, CONTENDED = 2 };

static uint32_t *word_of(uint64_t arena, int32_t mutex_offset)
{
    return (uint32_t *)(uintptr_t)(arena + (uint64_t)mutex_offset);
}

bool as_arena_lock(uint64_t arena, int32_t mutex_offset, uint64_t deadline_ns)
{
    uint32_t *word = word_of(arena, mutex_offset);
    uint32_t seen = FREE;
    if (__atomic_compare_exchange_n(word, &seen, TAKEN, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return true;
    if (seen != TAKEN && seen != CONTENDED)
        return false; // not a lock: nothing is written to it
    // FUTEX_WAIT_BITSET takes a point in time, on the monotonic clock, where FUTEX_WAIT takes a duration.
    struct timespec deadline = as_time_of(deadline_ns);
    while (__atomic_exchange_n(word, CONTENDED, __ATOMIC_ACQUIRE) != FREE) {
        long done = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, CONTENDED, &deadline, NULL,
                            FUTEX_BITSET_MATCH_ANY);
        // The word stays at 2 when we give up: its owner wakes nobody then, which costs one system call.
        if (done != 0 && errno != EAGAIN && errno != EINTR)
            return false;
    }
    return true;
}

bool as_arena_unlock(uint64_t arena, int32_t mutex_offset)
{
    uint32_t *word = word_of(arena, mutex_offset);
    if (__atomic_exchange_n(word, FREE, __ATOMIC_RELEASE) != CONTENDED)
        return false;
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1);
    return true;
}
