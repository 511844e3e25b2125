// SPDX-License-Identifier: MIT
// Seccomp filters. Each thread has its own: a thread sets one for itself, or for all threads (SECCOMP_FILTER_FLAG_TSYNC), and a new
// thread has those of the thread that makes it. Internal to target/ and inject/.
#pragma once

#include "target/process/read/live_process.h"

enum as_thread_filter {
    AS_THREAD_UNFILTERED, // also where the kernel has no seccomp
    AS_THREAD_FILTERED,   // or in strict mode
    AS_THREAD_GONE,       // it has ended
};

enum as_thread_filter as_thread_filter(const struct as_process *p, pid_t tid);

// Threads that have not ended.
struct as_filtered_threads {
    size_t unfiltered;
    size_t filtered;
    pid_t tid; // one that is filtered; 0: there is none
};

// Lists the threads anew. False: the process has ended.
bool as_count_filtered(struct as_process *p, struct as_filtered_threads *out, struct as_error *err);
