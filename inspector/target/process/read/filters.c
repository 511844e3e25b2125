// SPDX-License-Identifier: MIT
#include "target/process/read/filters.h"

// A thread that has ended has no filter any more, and could not be used.
enum as_thread_filter as_thread_filter(const struct as_process *p, pid_t tid)
{
    struct as_proc_stat stat;
    uint64_t mode = as_proc_status(p->proc_fd, as_proc_name("task/%d/status", tid).text, "Seccomp:");
    if (!as_proc_stat(p->proc_fd, as_proc_name("task/%d/stat", tid).text, &stat) || as_proc_is_dead(stat.state))
        return AS_THREAD_GONE;
    return mode == 0 || mode == AS_PROC_NONE ? AS_THREAD_UNFILTERED : AS_THREAD_FILTERED;
}

bool as_count_filtered(struct as_process *p, struct as_filtered_threads *out, struct as_error *err)
{
    *out = (struct as_filtered_threads){0};
    if (!as_process_list_threads(p, err))
        return false;
    for (size_t i = 0; i < p->tids.count; ++i) {
        enum as_thread_filter filter = as_thread_filter(p, p->tids.items[i]);
        out->unfiltered += filter == AS_THREAD_UNFILTERED;
        out->filtered += filter == AS_THREAD_FILTERED;
        if (filter == AS_THREAD_FILTERED)
            out->tid = p->tids.items[i];
    }
    return true;
}
