// SPDX-License-Identifier: MIT
#include "target/process/stop/one_thread.h"
#include "target/process/stop/freeze.h"
#include "target/process/stop/registers.h"
#include "target/process/stop/restart.h"

#include <sched.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

enum { STOP_ONE_MS = 2000 }; // for which a thread may be slow to stop

bool as_process_is_touchy(const struct as_process *p, pid_t tid)
{
    char text[64];
    if (as_proc_read(p->proc_fd, as_proc_name("task/%d/syscall", tid).text, text, sizeof text) <= 0 || text[0] < '0' ||
        text[0] > '9')
        return false;
    const char *at = text;
    switch (as_parse_decimal(&at, text + strlen(text))) {
    case SYS_epoll_pwait:
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
    case 441: // epoll_pwait2
    case SYS_semtimedop:
    case SYS_rt_sigtimedwait:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_io_getevents:
        return true;
    default:
        return false;
    }
}

// Makes it the last of the tracees, behind those that earlier would not stop. It may be one already, escorted.
static bool attach_one(struct as_process *p, pid_t tid)
{
    struct as_tracee tracee = {.tid = tid};
    for (size_t i = 0; i < p->tracees.count; ++i) {
        if (p->tracees.items[i].tid != tid)
            continue;
        tracee = p->tracees.items[i];
        p->tracees.items[i] = p->tracees.items[p->tracees.count - 1];
        p->tracees.items[p->tracees.count - 1] = tracee;
        return tracee.escorted;
    }
    if (!as_vec_reserve(&p->tracees, 1, NULL) || ptrace(PTRACE_SEIZE, tid, 0, 0) != 0)
        return false;
    p->tracees.items[p->tracees.count++] = tracee;
    return true;
}

bool as_process_stop_one(struct as_process *p, pid_t tid)
{
    struct as_proc_stat stat;
    if (!as_proc_stat(p->proc_fd, as_proc_name("task/%d/stat", tid).text, &stat) || stat.state == 'D' ||
        as_proc_is_dead(stat.state) || !as_restart_permits_stop_one(p, tid) || !attach_one(p, tid))
        return false;
    size_t index = p->tracees.count - 1;
    struct as_tracee *tracee = &p->tracees.items[index];
    ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    uint64_t deadline = as_now_ns() + (uint64_t)STOP_ONE_MS * 1000000;
    while (as_tracee_read_registers(tracee)) {
        if (tracee->stopped)
            return as_registers_read(tid, &tracee->registers);
        if (as_now_ns() > deadline)
            return false;
        sched_yield();
    }
    p->tracees.count = index;
    return false;
}
