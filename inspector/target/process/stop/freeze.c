// SPDX-License-Identifier: MIT
// Stopping a live process, all its threads at once, and letting it go again exactly as it was.
//
// PTRACE_SEIZE and PTRACE_INTERRUPT send the target no signal and leave no trace in it. Whatever ends us (SIGKILL
// too), the kernel detaches our tracees and they run on: hence no PTRACE_O_EXITKILL, ever. ptrace belongs to a thread:
// stop and resume have to be called by the same one.
#include "target/process/stop/freeze.h"
#include "target/process/stop/registers.h"
#include "target/process/stop/restart.h"
#include "target/process/stop/syscall_stop.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// How long we wait for threads to stop. Stopping takes microseconds unless a thread is in an uninterruptible wait (a
// parent in vfork, a dead network file system).
#define STOP_NS UINT64_C(2000000000)
// How long a resume waits for a thread that did not stop in time to become detachable.
#define STRAGGLER_NS UINT64_C(200000000)

enum {
    REAP_ROUNDS = 50,    // of waiting for one thread, after which the others are inspected
    TIMER_NS = 20000000, // between two readings of a state while PTRACE_SEIZE waits
};

// Waits between two readings of a thread's state: yields at first, then sleeps for longer and longer.
static void pause_a_little(unsigned round)
{
    if (round < 50) {
        sched_yield();
        return;
    }
    as_sleep_ns(round < 100 ? 20000 : 1000000);
}

static char thread_state(const struct as_process *p, pid_t tid)
{
    struct as_proc_stat stat;
    return as_proc_stat(p->proc_fd, as_proc_name("task/%d/stat", tid).text, &stat) ? stat.state : 'X';
}

// False.
static bool is_unstoppable(struct as_process *p, pid_t tid, const char *within, struct as_error *err)
{
    p->base.stop.unstoppable = true;
    return as_fail(
        err, AS_DENIED,
        "process %d cannot be stopped%s: its thread %d is in an uninterruptible wait (a vfork whose child has not "
        "exec'd yet, or a file system that does not answer)",
        p->base.pid, within, (int)tid);
}

// Before anything is touched: a thread that stays in an uninterruptible wait could not be stopped, and worse, could
// not be detached from. Found here, it costs the target nothing.
static bool await_interruptible(struct as_process *p, uint64_t deadline, struct as_error *err)
{
    for (size_t i = 0; i < p->tids.count; ++i) {
        for (unsigned round = 0; thread_state(p, p->tids.items[i]) == 'D'; ++round) {
            if (as_now_ns() > deadline)
                return is_unstoppable(p, p->tids.items[i], "", err);
            pause_a_little(round);
        }
    }
    return true;
}

static bool is_tracee(const struct as_process *p, pid_t tid, size_t hint)
{
    // The kernel lists threads in the same order each time: nearly always the hint is right.
    if (hint < p->tracees.count && p->tracees.items[hint].tid == tid)
        return true;
    for (size_t i = 0; i < p->tracees.count; ++i) {
        if (p->tracees.items[i].tid == tid)
            return true;
    }
    return false;
}

static uint64_t tracer_of(const struct as_process *p, pid_t tid)
{
    uint64_t tracer = as_proc_status(p->proc_fd, as_proc_name("task/%d/status", tid).text, "TracerPid:");
    return tracer == AS_PROC_NONE ? 0 : tracer;
}

// `tracer`: who had the thread when the kernel refused it to us; 0: nobody.
static bool seize_failed(struct as_process *p, uint64_t tracer, struct as_error *err)
{
    if (tracer == 0)
        return as_process_denied(p, "its threads", err);
    char comm[64] = "";
    ssize_t length = as_proc_read(-1, as_proc_name("/proc/%d/comm", (int)tracer).text, comm, sizeof comm);
    if (length > 0 && comm[length - 1] == '\n')
        comm[length - 1] = '\0';
    p->was_held = length <= 0 || strcmp(comm, AS_SUPERVISOR_NAME) == 0; // or it has just ended
    return as_fail(err, AS_DENIED,
                   "process %d cannot be stopped: it is already being traced by process %d (%s); end that tracer first",
                   p->base.pid, (int)tracer, comm);
}

bool as_tracee_read_registers(struct as_tracee *tracee)
{
    siginfo_t info;
    int got;
    do {
        // A stop is left to be waited for again (WNOWAIT): if we are killed now, the kernel still knows the signal with
        // which the thread was stopped, and delivers it. Waited for, it would be lost.
        info.si_pid = 0;
        got = waitid(P_PID, (id_t)tracee->tid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL | WNOHANG);
    } while (got < 0 && errno == EINTR);
    if (got == 0 && info.si_pid == 0)
        return true;
    if (got < 0)
        return false;
    if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) {
        // A dead one has to be waited for, or its parent never learns of it.
        while (waitpid(tracee->tid, NULL, __WALL | WNOHANG) < 0 && errno == EINTR)
            ;
        return false;
    }
    if (tracee->escorted && info.si_status == AS_SYSCALL_STOP)
        return as_restart_step(tracee, info.si_status, true);
    if (tracee->escorted)
        ptrace(PTRACE_SETOPTIONS, tracee->tid, 0, 0);
    tracee->stopped = true;
    tracee->escorted = tracee->suspended = false;
    tracee->registers.known = false;
    // PTRACE_EVENT_STOP is our interrupt (SIGTRAP), or a group stop (SIGSTOP and the like), which outlasts a detach by
    // itself. Anything else is a signal on its way into the thread, and the thread must not lose it.
    int signal = info.si_status & 0xff;
    bool event = info.si_status >> 8 == PTRACE_EVENT_STOP;
    tracee->signal = event ? 0 : signal;
    tracee->group_stopped = event && signal != SIGTRAP;
    as_restart_guard(tracee);
    return true;
}

// PTRACE_SEIZE waits while a thread of the target executes a program, and that thread waits for the end of all others, which are not
// over before we have waited for them. So a timer's signal interrupts it, after which the kernel repeats it by itself. Not SIGALRM: an
// alarm that was set before arenadump was executed (`perl -e 'alarm 60; exec @ARGV'`) is the user's.
static struct as_process *volatile seizing;

static void on_timer(int signal)
{
    struct as_process *p = seizing;
    int saved = errno;
    (void)signal;
    for (size_t i = 0; p && i < p->tracees.count; i++)
        as_tracee_read_registers(&p->tracees.items[i]);
    errno = saved;
}

struct seize_timer {
    int id; // the kernel's
    struct sigaction action;
    sigset_t mask;
};

// False: there is none, and nothing to undo. By the kernel's calls, as libc's are in librt before glibc 2.34.
static bool start_timer(struct seize_timer *t)
{
    const int number = SIGRTMAX;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = number};
    const struct itimerspec often = {{.tv_nsec = TIMER_NS}, {.tv_nsec = TIMER_NS}};
    sigset_t set;
    event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
    if (syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &t->id) != 0)
        return false;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &(struct sigaction){.sa_handler = on_timer, .sa_flags = SA_RESTART}, &t->action);
    pthread_sigmask(SIG_UNBLOCK, &set, &t->mask);
    syscall(SYS_timer_settime, t->id, 0, &often, NULL);
    return true;
}

static void stop_timer(const struct seize_timer *t)
{
    syscall(SYS_timer_delete, t->id);
    pthread_sigmask(SIG_SETMASK, &t->mask, NULL);
    sigaction(SIGRTMAX, &t->action, NULL);
}

// 0, or why it is not: ESRCH where it has ended, or is the leader of threads that outlive it. EPERM is also the answer
// for a thread that somebody else traces (*tracer), and for a first thread that has just ended, while another one, which
// executes a program, is about to have its id: it may do so again and again.
static int seize(struct as_process *p, pid_t tid, uint64_t *tracer)
{
    enum { MOST_TRIES = 50 };
    for (int tries = 1;; tries++) {
        seizing = p;
        int why = ptrace(PTRACE_SEIZE, tid, 0, 0) == 0 ? 0 : errno;
        seizing = NULL;
        if (why == 0)
            return 0;
        *tracer = tracer_of(p, tid);
        if (why == EPERM && tries == 1 && *tracer == 0)
            continue;
        if (as_proc_is_dead(thread_state(p, tid)))
            return ESRCH;
        if (why != EPERM || *tracer != 0 || tries == MOST_TRIES)
            return why;
    }
}

// Attaches to every thread that is listed and not attached to yet; *added says whether there was one.
static bool seize_all(struct as_process *p, bool *added, struct as_error *err)
{
    *added = false;
    for (size_t i = 0; i < p->tids.count; ++i) {
        pid_t tid = p->tids.items[i];
        if (is_tracee(p, tid, i))
            continue;
        if (!as_vec_reserve(&p->tracees, 1, err))
            return false;
        uint64_t tracer = 0;
        const int why = seize(p, tid, &tracer);
        if (why == ESRCH || why == EINVAL)
            continue;
        if (why != 0)
            return seize_failed(p, tracer, err);
        ptrace(PTRACE_INTERRUPT, tid, 0, 0);
        p->tracees.items[p->tracees.count++] = (struct as_tracee){.tid = tid};
        *added = true;
    }
    return true;
}

static bool seize_new(struct as_process *p, bool *added, struct as_error *err)
{
    struct seize_timer timer;
    bool timed = p->tids.count > 1 && start_timer(&timer); // a thread that is alone has nobody to wait for
    bool ok = seize_all(p, added, err);
    if (timed)
        stop_timer(&timer);
    return ok;
}

static void forget(struct as_process *p, size_t index)
{
    // Keeps the order, on which is_tracee's hint relies.
    memmove(&p->tracees.items[index], &p->tracees.items[index + 1],
            (p->tracees.count - index - 1) * sizeof p->tracees.items[0]);
    --p->tracees.count;
}

// A thread that executes a program waits until all others have been waited for that end by it, stopped ones too: so each that we wait
// for may itself wait for us.
static void reap_others(struct as_process *p, size_t *index)
{
    for (size_t i = p->tracees.count; i-- > 0;) {
        if (i == *index || as_tracee_read_registers(&p->tracees.items[i]))
            continue;
        forget(p, i);
        *index -= i < *index;
    }
}

// Waits until every tracee has stopped or ended. False: some did not by the deadline.
static bool await_stops(struct as_process *p, uint64_t deadline)
{
    bool late = false; // all that have stopped meanwhile count, though it was we who had no processor
    for (size_t i = 0; i < p->tracees.count;) {
        for (unsigned round = 0;; ++round) {
            if (p->tracees.items[i].stopped) {
                ++i;
                break;
            }
            if (!as_tracee_read_registers(&p->tracees.items[i])) {
                forget(p, i);
                break;
            }
            if (!p->tracees.items[i].stopped) {
                if (late)
                    return false;
                late = as_now_ns() > deadline;
                pause_a_little(round);
                if (round % REAP_ROUNDS != REAP_ROUNDS - 1)
                    continue;
                reap_others(p, &i);
                if (round > REAP_ROUNDS) // an exec can lose an interrupt (4 of 1,400 snapshots on Linux 6.18)
                    ptrace(PTRACE_INTERRUPT, p->tracees.items[i].tid, 0, 0);
            }
        }
    }
    return true;
}

static bool count_threads(const struct as_process *p, uint64_t *count)
{
    struct as_proc_stat stat;
    if (!as_proc_stat(p->proc_fd, "stat", &stat))
        return false;
    *count = stat.threads;
    return true;
}

static uint64_t stop_limit_ns(const struct as_process *p)
{
    return p->patience_ns != 0 ? p->patience_ns : STOP_NS;
}

// Why a thread has not stopped in time, as far as its state tells.
static bool stop_failed(struct as_process *p, struct as_error *err)
{
    double seconds = (double)stop_limit_ns(p) / 1e9;
    pid_t tid = 0;
    char state = '?';
    for (size_t i = 0; i < p->tracees.count && state != 'D'; ++i) {
        if (p->tracees.items[i].stopped)
            continue;
        tid = p->tracees.items[i].tid;
        state = thread_state(p, tid);
    }
    if (state == 'D') {
        char within[48];
        snprintf(within, sizeof within, " within %g s", seconds);
        return is_unstoppable(p, tid, within, err);
    }
    return as_fail(err, AS_DENIED,
                   "process %d could not be stopped within %g s: of its %zu threads %d had not stopped yet (state "
                   "%c)%s",
                   p->base.pid, seconds, p->tracees.count, (int)tid, state,
                   state == 'R' ? ", and no processor was free for it to do so" : "");
}

bool as_process_halt(struct as_process *p, struct as_error *err)
{
    uint64_t deadline = as_now_ns() + stop_limit_ns(p);
    uint64_t due = as_process_due(p);
    if (p->tracees.count == as_restart_escorted(p)) {
        if (!as_process_list_threads(p, err) || !await_interruptible(p, deadline, err))
            return false;
        p->stop_began = as_now_ns();
        deadline = p->stop_began + stop_limit_ns(p);
        due = as_process_due(p);
    }
    for (size_t i = 0; i < p->tracees.count; ++i) {
        if (!p->tracees.items[i].stopped)
            ptrace(PTRACE_INTERRUPT, p->tracees.items[i].tid, 0, 0);
    }
    // Only a running thread can start another: once all that are known stand still and a further pass finds none that
    // is new, there is none. A thread's end can make the kernel's listing skip another one: hence the count.
    bool added = true;
    for (unsigned attempts = 1;; ++attempts) {
        uint64_t threads = 0;
        if (!as_process_list_threads(p, err) || !seize_new(p, &added, err))
            return false;
        size_t tracees = p->tracees.count;
        if (!await_stops(p, deadline < due ? deadline : due))
            return as_now_ns() >= due ? as_process_deadline_exceeded(p, err) : stop_failed(p, err);
        if (!count_threads(p, &threads))
            return as_process_gone(p, err);
        // One that was escorted may have been let go instead, as its sleep had ended: it runs.
        if (!added && threads <= p->tids.count && p->tracees.count == tracees)
            break;
        if (as_now_ns() >= due)
            return as_process_deadline_exceeded(p, err);
        // The first snapshot finds those that were there before: to stop them all may take that long on a busy machine.
        if (as_now_ns() > deadline && attempts > 1)
            return as_fail(
                err, AS_DENIED,
                "process %d could not be stopped within %g s: each of the %u times that all known threads had stopped, "
                "new threads had started or others ended",
                p->base.pid, (double)stop_limit_ns(p) / 1e9, attempts);
    }
    if (p->tracees.count == 0)
        return as_process_gone(p, err);
    return true;
}

static void restore_call(struct as_tracee *tracee)
{
    if (!tracee->registers.known)
        as_registers_read(tracee->tid, &tracee->registers);
    as_registers_mend(tracee->tid, &tracee->registers);
}

void as_process_let_run(struct as_tracee *tracee)
{
    if (tracee->guarded) // it sleeps
        return;
    restore_call(tracee);
    if (ptrace(PTRACE_CONT, tracee->tid, 0, (long)tracee->signal) != 0)
        return; // killed while it stood still: the next halt finds out
    tracee->stopped = false;
    tracee->signal = 0;
}

// Lets one tracee go; true when it is not ours any more.
static bool release(const struct as_process *p, struct as_tracee *tracee)
{
    if (tracee->escorted)
        return false;
    if (!tracee->stopped && !as_tracee_read_registers(tracee))
        return true;
    if (!tracee->stopped || as_restart_escort(p, tracee))
        return false;
    restore_call(tracee);
    if (ptrace(PTRACE_DETACH, tracee->tid, 0, (long)tracee->signal) == 0)
        return true;
    tracee->stopped = false; // killed while it stood still: to be waited for, or its parent never learns of its end
    return false;
}

static bool awaits_stops(const struct as_process *p)
{
    for (size_t i = 0; i < p->tracees.count; ++i) {
        const struct as_tracee *tracee = &p->tracees.items[i];
        if (!tracee->escorted && !tracee->stopped && as_restart_awaits_stop(p, tracee->tid))
            return true;
    }
    return false;
}

void as_process_resume(struct as_target *t)
{
    struct as_process *p = as_process_of(t);
    uint64_t deadline = 0;
    for (unsigned round = 0; p->tracees.count > as_restart_escorted(p) || round == 0; ++round) {
        size_t kept = 0;
        for (size_t i = 0; i < p->tracees.count; ++i) {
            if (!release(p, &p->tracees.items[i]))
                p->tracees.items[kept++] = p->tracees.items[i];
        }
        p->tracees.count = kept;
        kept -= as_restart_escorted(p); // these run
        uint64_t now = as_now_ns();
        if (deadline == 0)
            deadline = now + STRAGGLER_NS;
        if (kept > 0 && now > deadline && !awaits_stops(p))
            break;
        if (kept > 0)
            pause_a_little(round);
    }
    if (t->stop.active)
        t->stop.duration_ns = p->stood_ns + as_now_ns() - p->stop_began;
    t->stop.active = false;
    as_restart_settle(p);
}
