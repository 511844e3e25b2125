// SPDX-License-Identifier: MIT
// Times in nanoseconds, and as the kernel has them.
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t as_ns_of(struct timespec time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static inline struct timespec as_time_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

static inline uint64_t as_clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return as_ns_of(now);
}

// A signal may end it earlier.
static inline void as_sleep_ns(uint64_t ns)
{
    const struct timespec time = as_time_of(ns);
    nanosleep(&time, NULL);
}
