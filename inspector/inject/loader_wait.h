// SPDX-License-Identifier: MIT
// Taking a thread out of dlopen again while it waits for the loader's lock and has not got it. Internal to inject/.
#pragma once

#include "inject/plan.h"

enum { // bytes of the thread's variables, on both sides of the thread pointer
#if defined(__aarch64__)
    AS_YIELD_BELOW = 4096,
    AS_YIELD_ABOVE = 64 * 1024,
#else
    AS_YIELD_BELOW = 64 * 1024,
    AS_YIELD_ABOVE = 4096,
#endif
    AS_YIELD_WORDS = (AS_YIELD_BELOW + AS_YIELD_ABOVE) / 8,
};

struct as_loader_wait {
    struct as_process *p;
    const struct as_plan *plan;
    pid_t tid;
    struct as_range stack; // ours, in the target
    uint64_t since_ns;     // it has been seen to wait; 0: it does not
    uint64_t start;        // address of the first of...
    size_t count;
    uint64_t words[AS_YIELD_WORDS]; // ... the thread's variables as they were before
};

// Before the call, while the thread is stopped.
void as_yield_begin(struct as_loader_wait *y, struct as_process *p, const struct as_plan *plan,
                    const struct as_tracee *tracee, struct as_range stack);
// While it runs, again and again: has it waited for long?
bool as_loader_wait_is_due(struct as_loader_wait *y);
// When it has been stopped: does it wait there still?
bool as_loader_wait_may_end(struct as_loader_wait *y);
// Puts back what dlopen has changed. False: the thread has been killed.
bool as_loader_wait_undo(struct as_loader_wait *y, struct as_error *err);
