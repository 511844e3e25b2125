// SPDX-License-Identifier: MIT
#include "target/process/clone/remote_thread.h"
#include "target/process/stop/await.h"
#include "target/process/stop/syscall_stop.h"

#include <sys/ptrace.h>

// Waits for the next stop. A call that lasts too long is told to end: what waits for an event does, and the thread can be put back. If
// it does not end, that is said, and it is waited for.
static bool await_stop(struct as_remote *r, int *stop)
{
    while (as_tracee_await(r->tid, r->deadline_ns, stop)) {
        if (*stop != 0)
            return true;
        r->deadline_ns = r->interrupted ? UINT64_MAX : as_now_ns() + r->limit_ns;
        if (!r->interrupted)
            ptrace(PTRACE_INTERRUPT, r->tid, 0, 0);
        else if (r->late)
            r->late(r->context);
        r->interrupted = true;
    }
    return false;
}

// Lets the thread run to a stop of the kind that is wanted, past all others. Blocked as its signals are, the only one
// that can come is SIGSTOP: it is kept for the end.
bool as_remote_run_until(struct as_remote *r, int request, int wanted)
{
    for (;;) {
        int stop;
        if (ptrace(request, r->tid, 0, 0) != 0 || !await_stop(r, &stop))
            return false;
        if (stop == (SIGTRAP | PTRACE_EVENT_CLONE << 8)) {
            unsigned long pid = 0;
            ptrace(PTRACE_GETEVENTMSG, r->tid, 0, &pid);
            r->born = (pid_t)pid;
        } else if (stop >> 8 == 0 && stop != AS_SYSCALL_STOP) {
            r->signal = stop;
        }
        if (stop == wanted)
            return true;
        // A signal is as good a place as our interrupt to put the registers back: the kernel goes on from both alike.
        if (wanted == (SIGTRAP | PTRACE_EVENT_STOP << 8) && stop != AS_SYSCALL_STOP &&
            (stop >> 8 == 0 || stop >> 8 == PTRACE_EVENT_STOP))
            return true;
    }
}

bool as_remote_block(const struct as_remote *r)
{
    uint64_t every = UINT64_MAX;
    return ptrace(PTRACE_SETSIGMASK, r->tid, sizeof every, &every) == 0;
}
