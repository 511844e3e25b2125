// SPDX-License-Identifier: MIT
// Giving memory back: Arenascope.trim, and what follows a full GC (after_gc.c).
#include "native.h"

#include <fcntl.h>
#include <malloc.h>
#include <ruby/thread.h>
#include <stdio.h>
#include <unistd.h>

uint64_t as_anonymous_bytes(void)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return ARENASCOPE_UNKNOWN;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return ARENASCOPE_UNKNOWN;
    text[got] = '\0';
    unsigned long long resident, shared;
    if (sscanf(text, "%*u %llu %llu", &resident, &shared) != 2 || resident < shared)
        return ARENASCOPE_UNKNOWN;
    return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void as_measured_trim(struct as_measured_trim *trim)
{
    const struct arenascope_trim_options deep = {.size = sizeof deep, .flags = ARENASCOPE_DEEP};
    trim->before = as_anonymous_bytes();
    trim->started_ns = as_clock_ns(CLOCK_MONOTONIC);
    trim->cpu_ns = as_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (!trim->deep || arenascope_trim(&deep, NULL) != ARENASCOPE_OK)
        malloc_trim(0);
    trim->cpu_ns = as_clock_ns(CLOCK_THREAD_CPUTIME_ID) - trim->cpu_ns;
    trim->ended_ns = as_clock_ns(CLOCK_MONOTONIC);
    trim->after = as_anonymous_bytes();
}

struct trim {
    struct arenascope_trim_options options;
    struct arenascope_trim_result result;
};

static void *without_gvl(void *argument)
{
    struct trim *trim = argument;
    return (void *)(intptr_t)arenascope_trim(&trim->options, &trim->result);
}

// Native.trim(deep, max_hold in nanoseconds) → bytes given back, or nil if the kernel did not tell
static VALUE trim(VALUE self, VALUE deep, VALUE max_hold)
{
    struct trim trim = {.options.size = sizeof trim.options, .result.size = sizeof trim.result};
    trim.options.flags = RTEST(deep) ? ARENASCOPE_DEEP : 0;
    trim.options.max_hold = NUM2ULL(max_hold);
    as_check((int)(intptr_t)rb_thread_call_without_gvl(without_gvl, &trim, NULL, NULL));
    return trim.result.returned == ARENASCOPE_UNKNOWN ? Qnil : ULL2NUM(trim.result.returned);
}

void as_init_give_back(void)
{
    rb_define_module_function(as_native, "trim", trim, 2);
}
