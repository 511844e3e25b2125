// SPDX-License-Identifier: MIT
// The function returns to a system call instruction that is there already, and there the kernel stops the thread for us:
// nothing of its code is patched, and no signal is needed that the application might catch, block or ignore. Should we be
// dead by then, as_call_prepare has prepared what follows.
#include "inject/call.h"
#include "inject/call_write.h"
#include "inject/loader_wait.h"
#include "target/process/clone/machine.h"
#include "target/process/stop/await.h"
#include "target/process/stop/pending.h"
#include "target/process/stop/registers.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#define STEP_NS UINT64_C(1000000) // between two checks of whether a call takes long

// How a call fares.
struct progress {
    uint64_t mask; // what the thread blocks
    uint64_t deadline_ns;
    bool reported;           // that it takes long
    bool enters_handler;     // at the next stop it may be at the first instruction of a signal handler
    struct as_range handler; // the alternate stack of its last signal handler
    int signal;              // with which it goes on when it has left
};

enum {
    // The two signals that libc keeps for itself (nptl: SIGCANCEL, which is SIGTIMER as well, and SIGSETXID).
    SIGNAL_CANCEL = 32,
    SIGNAL_SETXID = 33,
};

static bool fail_as_gone(const struct as_remote *r, struct as_error *err)
{
    return as_fail(err, AS_TARGET_GONE, "thread %d was killed in the middle of a call", r->tid);
}

// What is given to the thread during a call: what its own instructions raise. Blocked, it would end the process. (abort() opens
// the mask for SIGABRT itself.)
static uint64_t delivered(void)
{
    return as_faults() | as_signal_bit(SIGABRT) | as_signal_bit(SIGNAL_SETXID);
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
    return ~(as_faults() | (as_signal_bit(SIGNAL_SETXID) & ~own));
}

// Waits for a stop. When it takes long, that is told once, and the thread is stopped again and again, for a snapshot of where it is.
static bool await(const struct as_function_call *call, struct progress *at, int *stop)
{
    pid_t tid = call->remote->tid;
    while (as_tracee_await(tid, as_now_ns() + STEP_NS, stop)) {
        if (*stop != 0)
            return true;
        bool yields = call->yield && !at->reported && as_loader_wait_is_due(call->yield);
        bool late = as_now_ns() > at->deadline_ns;
        if (late) {
            if (!at->reported && call->late)
                call->late(call->context);
            at->reported = true;
            at->deadline_ns = as_now_ns() + call->watchdog_ns;
        }
        if (yields || late)
            ptrace(PTRACE_INTERRUPT, tid, 0, 0);
    }
    return false;
}

// The alternate stack of a thread that may be at the first instruction of a signal handler, as the frame above the handler has
// it. Not changed where there is none.
static void read_handler_stack(pid_t tid, uint64_t sp, struct as_range *out)
{
    enum { STACK = 16 }; // stack_t uc_stack, behind uc_flags and uc_link
    stack_t stack;
    struct iovec ours = {&stack, sizeof stack};
    struct iovec theirs = {(void *)(uintptr_t)(sp + AS_HANDLER_CONTEXT + STACK), sizeof stack};
    if (process_vm_readv(tid, &ours, 1, &theirs, 1, 0) != (ssize_t)sizeof stack || (stack.ss_flags & SS_DISABLE))
        return;
    out->start = (uint64_t)(uintptr_t)stack.ss_sp;
    out->end = out->start + stack.ss_size;
}

// Has the thread left the call? Then its stack pointer is neither on the call's stack nor on that of a signal handler of its own.
static bool has_left(const struct as_function_call *call, struct progress *at)
{
    struct as_registers now;
    if (!as_registers_read(call->remote->tid, &now) || (now.sp > call->stack && now.sp <= call->stack_top))
        return false;
    if (at->enters_handler)
        read_handler_stack(call->remote->tid, now.sp, &at->handler);
    return now.sp <= at->handler.start || now.sp > at->handler.end;
}

// The signal with which a thread goes on that was about to receive `signal`. Handlers run on our stack, or on their own, and
// return to where the function was. With its own number a signal keeps its siginfo, by which libc knows SIGSETXID for its own.
// A fault that a process has sent has time: given to a thread that blocks it, the kernel queues it as it was.
static int pass_on(const struct as_function_call *call, struct progress *at, int signal)
{
    struct as_remote *r = call->remote;
    siginfo_t info = {0};
    if (signal == SIGSTOP) {
        r->signal = signal; // kept for the end
        return 0;
    }
    ptrace(PTRACE_GETSIGINFO, r->tid, 0, &info);
    bool sent = (as_faults() & as_signal_bit(signal)) && info.si_code <= 0;
    if (sent || !(delivered() & as_signal_bit(signal))) {
        at->mask |= as_signal_bit(signal);
        ptrace(PTRACE_SETSIGMASK, r->tid, sizeof at->mask, &at->mask);
        return signal;
    }
    // Stopped at the handler's first instruction, it shows on which stack that runs. (libc's own runs on ours.)
    at->enters_handler = signal != SIGNAL_SETXID;
    if (at->enters_handler)
        ptrace(PTRACE_INTERRUPT, r->tid, 0, 0);
    return signal;
}

// Lets the thread run until the function has returned: until it enters the kernel from there. Or until it is seen to have left.
static bool run(const struct as_function_call *call, const struct as_call_setup *launch, struct progress *at,
                uint64_t *result)
{
    struct as_remote *r = call->remote;
    int deliver = 0;
    for (;;) {
        int stop;
        if (ptrace(PTRACE_SYSCALL, r->tid, 0, (long)deliver) != 0 || !await(call, at, &stop))
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
        }
        if (has_left(call, at)) {
            at->signal = stop >> 8 == 0 && stop != AS_SYSCALL_STOP ? stop : 0;
            return r->left = true;
        }
        at->enters_handler = false;
        if (stop >> 8 == 0 && stop != AS_SYSCALL_STOP)
            deliver = pass_on(call, at, stop);
    }
}

// From a stop at a system call to one where the kernel, as the thread goes on, inspects what it was doing again. The thread
// gets `deliver`, and, where it is at work of its own again, whatever else comes.
static bool step_to_delivery(const struct as_function_call *call, int deliver)
{
    struct as_remote *r = call->remote;
    int stop;
    ptrace(PTRACE_INTERRUPT, r->tid, 0, 0);
    do {
        if (ptrace(PTRACE_CONT, r->tid, 0, (long)deliver) != 0 || !as_tracee_await(r->tid, UINT64_MAX, &stop))
            return false;
        deliver = r->left && stop >> 8 == 0 && stop != AS_SYSCALL_STOP ? stop : 0;
        if (!r->left && stop >> 8 == 0 && stop != AS_SYSCALL_STOP)
            r->signal = stop;
    } while (stop >> 8 == 0 ? stop == AS_SYSCALL_STOP || r->left : stop >> 8 != PTRACE_EVENT_STOP);
    return true;
}

// A thread that has left the call runs code of the program's, which may have set the mask, as siglongjmp does. If not, it still
// has the call's. Its registers are its own, and the call's stack stays: what is there leads back to where the call began.
static bool let_go(const struct as_function_call *call, const struct progress *at)
{
    struct as_remote *r = call->remote;
    uint64_t closed = at->mask & ~(r->mask | as_signal_bit(SIGKILL) | as_signal_bit(SIGSTOP)); // which nobody blocks
    uint64_t now;
    bool ok = ptrace(PTRACE_GETSIGMASK, r->tid, sizeof now, &now) == 0;
    if (ok && (now & closed) == closed) {
        now = (now & ~closed) | (r->mask & ~at->mask);
        ok = ptrace(PTRACE_SETSIGMASK, r->tid, sizeof now, &now) == 0;
    }
    return ok && step_to_delivery(call, at->signal) && ptrace(PTRACE_SETOPTIONS, r->tid, 0, 0) == 0;
}

// The registers that lead to our stack come last: until then, should we be killed, the thread gets all of this back by itself.
static bool put_back(const struct as_function_call *call, const struct as_call_setup *launch, struct as_error *err)
{
    struct as_remote *r = call->remote;
    return as_call_restore(launch, r) &&
           (call->errno_at == 0 ||
            as_call_write(call->process, r->tid, call->errno_at, &call->errno_value, sizeof call->errno_value, err)) &&
           (!call->yielded || !*call->yielded || as_loader_wait_undo(call->yield, err)) && as_remote_put_back(r) &&
           ptrace(PTRACE_SETOPTIONS, r->tid, 0, r->options) == 0;
}

bool as_call_shelter(const struct as_function_call *call, struct as_error *err)
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

bool as_call(const struct as_function_call *call, uint64_t function, const uint64_t arguments[3], uint64_t *result,
             struct as_error *err)
{
    struct as_remote *r = call->remote;
    struct as_call_setup launch;
    struct progress at = {.mask = mask_during_call(r->mask), .deadline_ns = as_now_ns() + call->watchdog_ns};
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
              ptrace(PTRACE_SETSIGMASK, r->tid, sizeof at.mask, &at.mask) == 0 && run(call, &launch, &at, result);
    if (ok && r->left)
        return let_go(call, &at) ? as_fail(err, AS_DENIED, "thread %d has left the call by itself", r->tid)
                                 : fail_as_gone(r, err);
    // Blocked before the thread moves again: a signal that was taken from it now could not be given back with its siginfo.
    ok = ok && ptrace(PTRACE_SETSIGMASK, r->tid, sizeof every, &every) == 0 &&
         ptrace(PTRACE_SETOPTIONS, r->tid, 0, options) == 0 && step_to_delivery(call, 0) &&
         put_back(call, &launch, err);
    return ok || fail_as_gone(r, err);
}
