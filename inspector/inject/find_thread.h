// SPDX-License-Identifier: MIT
// Searching for a thread that may call dlopen. Internal to inject/.
#pragma once

#include "inject/inject_options.h"
#include "inject/plan.h"

struct as_thread_search {
    struct as_process *p;
    const struct as_plan *plan;
    uint64_t patience_ns;
    bool force; // a thread under a seccomp filter may do it: where there is no other, or none that will do for long
    struct as_inject_result *result; // which thread it is, what it was doing, how many snapshots and how long it took
};

// Stops threads, one at a time, until one is where it may do it: it is the last of the tracees. To be called again, with the same
// `began` (as_now_ns) and `err`, if that thread will not do after all. False: AS_TARGET_GONE; AS_DENIED, and why the last one would not do.
bool as_find_thread(const struct as_thread_search *s, uint64_t began, struct as_error *err);
