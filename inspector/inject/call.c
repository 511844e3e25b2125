// SPDX-License-Identifier: MIT
// The function returns to a system call instruction that is there already, and there the kernel stops the thread for us:
// nothing of its code is patched, and no signal is needed that the application might catch, block or ignore. Should we be
// dead by then, as_call_prepare has prepared what follows.
#define _GNU_SOURCE
#include "inject/call_arch.h"
#include "inject/loader_wait.h"
#include "target/process/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// By words, each in one piece where it is on one page: so is a jump at a function's entry.
static bool poke(pid_t tid, uint64_t address, const uint8_t *bytes, size_t length)
{
    enum { LEAST_PAGE = 4096 };
    long word;
    for (size_t take = 0; length > 0; address += take, bytes += take, length -= take) {
        uint64_t at = address % LEAST_PAGE > LEAST_PAGE - sizeof word ? address & -(uint64_t)sizeof word : address;
        size_t skip = (size_t)(address - at);
        take = length < sizeof word - skip ? length : sizeof word - skip;
        errno = 0;
        word = ptrace(PTRACE_PEEKDATA, tid, at, NULL);
        if (errno != 0)
            return false;
        memcpy((uint8_t *)&word + skip, bytes, take);
        if (ptrace(PTRACE_POKEDATA, tid, at, word) != 0)
            return false;
    }
    return true;
}

bool as_call_write(const struct as_process *p, pid_t tid, uint64_t address, const void *bytes, size_t length,
                   struct as_error *err)
{
    char name[48];
    uint64_t mask;
    snprintf(name, sizeof name, "task/%d/mem", tid);
    AS_CLEANUP_FD int fd = openat(p->proc_fd, name, O_WRONLY | O_CLOEXEC);
    // An exec by another thread would have ended this one: held still, it proves that the memory which was opened is not
    // another program's, one perhaps with rights that the target has not.
    if (fd >= 0 && ptrace(PTRACE_GETSIGMASK, tid, sizeof mask, &mask) != 0)
        return as_fail(err, AS_TARGET_GONE, "thread %d of process %d ended before its memory was written", tid,
                       p->base.pid);
    if (fd >= 0 && pwrite(fd, bytes, length, (off_t)address) == (ssize_t)length)
        return true;
    // To code nobody may write that way, where the kernel was told so (proc_mem.force_override=never, since Linux 6.12).
    if (fd < 0 || errno != EIO || !poke(tid, address, bytes, length))
        return as_fail_errno(err, AS_DENIED, "the memory of process %d cannot be written", p->base.pid);
    return true;
}

enum {
    // The two signals that libc keeps for itself (nptl: SIGCANCEL, which is SIGTIMER as well, and SIGSETXID).
    SIGNAL_CANCEL = 32,
    SIGNAL_SETXID = 33,
};

static bool gone(const struct as_remote *r, struct as_error *err)
{
    return as_fail(err, AS_TARGET_GONE, "thread %d was killed in the middle of a call", r->tid);
}

static uint64_t bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

// What the thread's own instructions may raise: blocked, it would end the process and its handler would be taken away.
static uint64_t synchronous(void)
{
    return bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS) | bit(SIGABRT);
}

// What stays blocked during a call, for a thread that blocks `own` itself.
//
// A thread that calls setuid() holds a lock that dlopen and pthread_create need, until every other thread has handled SIGSETXID:
// with that blocked, all of them would wait for ever. It is open, unless the thread itself has closed it.
//
// SIGCANCEL stays blocked, and comes when the thread is its own again: its handler may unwind the thread, out of dlopen and with the
// loader's lock held; where it does not, the wait that the signal was to end goes on. In a thread that waits for timers by
// sigwait() it has no handler, and would end the process.
static uint64_t mask_during_call(uint64_t own)
{
    return ~(synchronous() | (bit(SIGNAL_SETXID) & ~own));
}

// Waits for a stop; tells once when it takes long.
static bool await(const struct as_call *call, uint64_t deadline, bool *told, int *stop)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (!*told) {
        siginfo_t info = {0};
        int got = waitid(P_PID, (id_t)call->remote->tid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL | WNOHANG);
        if (got != 0 || info.si_pid != 0)
            break;
        if (as_now_ns() > deadline) {
            *told = true;
            if (call->late)
                call->late(call->context);
        }
        if (call->yield && as_loader_wait_is_due(call->yield))
            ptrace(PTRACE_INTERRUPT, call->remote->tid, 0, 0);
        sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = 1000000});
    }
    return as_remote_await(call->remote->tid, UINT64_MAX, stop);
}

// Lets the thread run until the function has returned: until it enters the kernel from there.
static bool run(const struct as_call *call, const struct as_call_setup *launch, uint64_t *result)
{
    struct as_remote *r = call->remote;
    uint64_t deadline = as_now_ns() + call->watchdog_ns;
    bool told = false;
    int deliver = 0;
    for (;;) {
        int stop;
        if (ptrace(PTRACE_SYSCALL, r->tid, 0, (long)deliver) != 0 || !await(call, deadline, &told, &stop))
            return false;
        deliver = 0;
        if (stop == AS_SYSCALL_STOP) {
            bool back;
            // (Our interrupt shows first as the end of the call that the thread waited in, and only as that.)
            if (call->yield && as_loader_wait_may_end(call->yield))
                return *call->yielded = true;
            if (!as_call_poll(launch, r, &back, result))
                return false;
            if (back)
                return true;
            continue;
        }
        // Handlers run on our stack, and return to where the function was. With its own number a signal keeps its siginfo, by
        // which libc knows SIGSETXID for its own.
        if (stop >> 8 == 0 && stop > 0 && stop < 64 && ((synchronous() | bit(SIGNAL_SETXID)) & bit(stop)))
            deliver = stop;
        else if (stop >> 8 == 0)
            r->signal = stop; // SIGSTOP: kept for the end
    }
}

// From a stop at a system call to one where the kernel, as the thread goes on, looks at what it was doing again.
static bool settle(const struct as_call *call)
{
    struct as_remote *r = call->remote;
    bool told = true;
    int stop;
    ptrace(PTRACE_INTERRUPT, r->tid, 0, 0);
    do {
        if (ptrace(PTRACE_CONT, r->tid, 0, 0) != 0 || !await(call, 0, &told, &stop))
            return false;
        if (stop >> 8 == 0 && stop != AS_SYSCALL_STOP)
            r->signal = stop;
    } while (stop >> 8 == 0 ? stop == AS_SYSCALL_STOP : stop >> 8 != PTRACE_EVENT_STOP);
    return true;
}

// The registers that lead to our stack come last: until then, should we be killed, the thread gets all of this back by itself.
static bool put_back(const struct as_call *call, const struct as_call_setup *launch, struct as_error *err)
{
    struct as_remote *r = call->remote;
    return as_call_restore(launch, r) &&
           (call->errno_at == 0 ||
            as_call_write(call->process, r->tid, call->errno_at, &call->errno_value, sizeof call->errno_value, err)) &&
           (!call->yielded || !*call->yielded || as_loader_wait_undo(call->yield, err)) && as_remote_put_back(r) &&
           ptrace(PTRACE_SETOPTIONS, r->tid, 0, r->options) == 0;
}

bool as_call_shelter(const struct as_call *call, struct as_error *err)
{
    struct as_call_setup launch;
    struct as_remote *r = call->remote;
    // Through a page that has been written no call is let past a seccomp filter: then the calls are made as before, elsewhere.
    if (!as_remote_is_sound(call->process, call->way->syscall_return))
        return true;
    if (!as_call_prepare(&launch, call, err))
        return false;
    r->shelter = (struct as_shelter){call->way->syscall_return, launch.stop_stack, call->way->restorer};
    return true;
}

bool as_call(const struct as_call *call, uint64_t function, const uint64_t arguments[3], uint64_t *result,
             struct as_error *err)
{
    struct as_remote *r = call->remote;
    struct as_call_setup launch;
    uint64_t mask = mask_during_call(r->mask);
    uint64_t every = UINT64_MAX;
    if (!as_call_prepare(&launch, call, err))
        return false;
    // Its threads are the application's, not ours to hold. Its own code is run, which a hostile target may have changed: under its
    // own seccomp filter, if there is one. (Not the call that we end it with, which is none.)
    long births = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    long options = r->options & ~births;
    // The registers before the mask: from then on the thread gets both back by itself, should we be killed.
    bool ok = ptrace(PTRACE_SETOPTIONS, r->tid, 0, options & ~AS_SUSPEND_SECCOMP) == 0 &&
              as_launch_set(&launch, r, function, arguments) &&
              ptrace(PTRACE_SETSIGMASK, r->tid, sizeof mask, &mask) == 0 && run(call, &launch, result);
    // Blocked before the thread moves again: a signal that was taken from it now could not be given back with its siginfo.
    ok = ok && ptrace(PTRACE_SETSIGMASK, r->tid, sizeof every, &every) == 0 &&
         ptrace(PTRACE_SETOPTIONS, r->tid, 0, options) == 0 && settle(call) && put_back(call, &launch, err);
    return ok || gone(r, err);
}
