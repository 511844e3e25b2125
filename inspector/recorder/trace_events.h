// SPDX-License-Identifier: MIT
// The inline parts of what each malloc and free passes through while a trace is made.
#pragma once

#include "base/clock.h"
#include "recorder/hot_path.h"
#include "trace/format.h"

static inline bool as_recorder_is_on(void)
{
    return __builtin_expect(atomic_load_explicit(&as_recorder.profiling, memory_order_relaxed), 1);
}

// The time now, before all that follows: no later store is seen by others before the counter has been read.
static inline uint64_t as_recorder_ticks(void)
{
    if (__builtin_expect(!as_recorder.ticks, 0))
        return as_clock_ns(CLOCK_MONOTONIC); // without a system call, and keeps errno
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t value;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(value)::"memory");
    return value;
#endif
}

// The time now, after all that came before. The processor may read its counter early, before malloc has got the block from another
// thread: only a fence keeps both in order.
static inline uint64_t as_recorder_ticks_after(void)
{
#if defined(__x86_64__)
    if (atomic_load_explicit(&as_recorder.threaded, memory_order_relaxed))
        __builtin_ia32_lfence();
#endif
    return as_recorder_ticks();
}
