// SPDX-License-Identifier: MIT
#include "target/process/read/filters.h"
#include "inject/inject.h"

bool as_inject_passes_filters(struct as_process *p, bool everywhere, struct as_error *err)
{
    struct as_filtered_threads threads;
    if (!as_count_filtered(p, &threads, err))
        return false;
    if (threads.filtered == 0)
        return true;
    if (threads.unfiltered == 0)
        return as_fail(
            err, AS_UNSUPPORTED,
            "process %d is under a seccomp filter, which may kill it for a system call that the agent makes: "
            "--force is safe where the filter allows files, mappings, sockets, threads and madvise, as the default "
            "profiles of Docker and podman do; it takes CAP_SYS_ADMIN, and an arenadump under no filter: run it as "
            "root, outside of the container",
            p->base.pid);
    if (!everywhere)
        return true;
    return as_fail(
        err, AS_UNSUPPORTED,
        "process %d: thread %d is under a seccomp filter, which may kill the process for a system call that the thread "
        "makes while it is recorded: use --force if you know that the filter allows rt_sigprocmask and gettid",
        p->base.pid, threads.tid);
}
