// SPDX-License-Identifier: MIT
#include "target/process/stop/restart.h"
#include "target/process/stop/await.h"
#include "target/process/stop/registers.h"
#include "target/process/stop/syscall_stop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    SECCOMP_FILTER = 2, // in /proc/PID/status
    MOST_TICKS = 10,    // of processor time until a sleep goes on, which takes microseconds
};

// --- What a thread sleeps in ---

static uint64_t relative(struct as_process *p, uint64_t address)
{
    struct timespec limit;
    if (as_target_read_resident(&p->base, address, &limit, sizeof limit) != sizeof limit || limit.tv_sec < 0)
        return AS_UNKNOWN;
    return limit.tv_sec > 0 ? AS_UNKNOWN : (uint64_t)limit.tv_nsec;
}

// The calls that the kernel restarts by restart_syscall (all of Linux 5.10 to 6.18), and no other.
static bool is_restarted_elsewhere(const struct as_sleep *s)
{
    switch (s->call) {
    case SYS_restart_syscall:
    case SYS_nanosleep:
#ifdef SYS_poll
    case SYS_poll:
#endif
        return true;
    case SYS_clock_nanosleep:
        return !(s->arguments[1] & TIMER_ABSTIME);
    case SYS_futex: {
        int command = (int)s->arguments[1] & FUTEX_CMD_MASK;
        return (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) && s->arguments[3] != 0;
    }
    default:
        return false;
    }
}

// Does a call that is made again end when it would have ended?
static bool keeps_deadline(const struct as_sleep *s)
{
    switch (s->call) {
#ifdef SYS_poll
    case SYS_poll:
        return (int32_t)s->arguments[2] < 0;
#endif
    case SYS_futex:
        return ((int)s->arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
    // The kernel has written what is left of the time to where it then reads the time from.
    case SYS_nanosleep:
        return s->arguments[0] == s->arguments[1];
    case SYS_clock_nanosleep:
        return s->arguments[2] == s->arguments[3];
    default:
        return false;
    }
}

uint64_t as_restart_delay(struct as_process *p, const struct as_sleep *s)
{
    if (!is_restarted_elsewhere(s) || keeps_deadline(s))
        return 0;
    switch (s->call) {
#ifdef SYS_poll
    case SYS_poll:
        return (uint64_t)(int32_t)s->arguments[2] * 1000000;
#endif
    case SYS_nanosleep:
        return relative(p, s->arguments[0]);
    case SYS_clock_nanosleep:
        return relative(p, s->arguments[2]);
    case SYS_futex:
        return relative(p, s->arguments[3]);
    default:
        return AS_UNKNOWN;
    }
}

// What a thread that is not stopped sleeps in. False: in no call; or it cannot be told (then `unknown`).
static bool read_sleep(const struct as_process *p, pid_t tid, struct as_sleep *out, bool *unknown)
{
    char text[256];
    ssize_t length = as_proc_read(p->proc_fd, as_proc_name("task/%d/syscall", tid).text, text, sizeof text - 1);
    *unknown = length <= 0 && errno != ESRCH && errno != ENOENT;
    if (length <= 0 || text[0] < '0' || text[0] > '9')
        return false;
    const char *at = text;
    const char *end = text + length;
    out->call = (int64_t)as_parse_decimal(&at, end);
    for (int i = 0; i < 6; ++i) {
        at += end - at > 3 ? 3 : 0; // " 0x"
        out->arguments[i] = as_parse_hex(&at, end);
    }
    return true;
}

static bool is_filtered(pid_t tid)
{
    return as_proc_status(AT_FDCWD, as_proc_name("/proc/%d/status", tid).text, "Seccomp:") == SECCOMP_FILTER;
}

static bool is_stopped(pid_t tid)
{
    return as_proc_state(tid) == 'T';
}

// --- Before the stop ---

// May we suspend a filter, and see which call a thread enters? Tried on a process of our own: the answer depends on our rights,
// our own filters, and on how the kernel was built.
static bool try_to_suspend(void)
{
    int stop;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    if (child < 0)
        return false;
    struct as_syscall_information info;
    bool may = ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_EXITKILL) == 0 && ptrace(PTRACE_INTERRUPT, child, 0, 0) == 0 &&
               as_tracee_await(child, UINT64_MAX, &stop) &&
               ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL | AS_SUSPEND_SECCOMP) == 0 &&
               ptrace(AS_GET_SYSCALL_INFO, child, sizeof info, &info) > 0;
    kill(child, SIGKILL);
    while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return may;
}

static bool may_escort(struct as_process *p)
{
    if (p->escort == AS_ESCORT_UNTRIED)
        p->escort = try_to_suspend() ? AS_ESCORT_ALLOWED : AS_ESCORT_DENIED;
    return p->escort == AS_ESCORT_ALLOWED;
}

// By how much longer a thread would sleep. Where results cannot be replaced, it is at risk whatever the call's deadline.
static uint64_t delay_of(struct as_process *p, pid_t tid)
{
    struct as_sleep sleep;
    bool unknown;
    if (!read_sleep(p, tid, &sleep, &unknown))
        return unknown ? AS_UNKNOWN : 0;
    if (!AS_RESULT_CAN_BE_REPLACED)
        return is_restarted_elsewhere(&sleep) ? AS_UNKNOWN : 0;
    return as_restart_delay(p, &sleep);
}

bool as_restart_permits_stop_one(struct as_process *p, pid_t tid)
{
    uint64_t delay = delay_of(p, tid);
    return delay == 0 || !is_filtered(tid) || is_stopped(tid) || may_escort(p) || delay <= AS_RESTART_MOST_NS;
}

// A thread may begin to sleep in the instant before it stops. Where its result can be replaced, the sleep is then as much longer as
// the process stood still; else nothing but an escort helps.
static bool may_race(struct as_process *p, pid_t tid)
{
    return !AS_RESULT_CAN_BE_REPLACED && is_filtered(tid) && !is_stopped(tid) && !may_escort(p);
}

bool as_restart_permits_stop(struct as_process *p, struct as_error *err)
{
    if (p->base.stop.force)
        return true;
    if (!as_process_list_threads(p, err))
        return false;
    for (size_t i = 0; i < p->tids.count; ++i) {
        pid_t tid = p->tids.items[i];
        if (as_restart_permits_stop_one(p, tid) && !may_race(p, tid))
            continue;
        p->base.stop.unstoppable = true;
        return as_fail(
            err, AS_DENIED,
            "thread %d of process %d sleeps under a seccomp filter, which may kill the process when the thread is "
            "stopped "
            "(the kernel continues such a sleep by restart_syscall): nothing was stopped. CAP_SYS_ADMIN permits it, "
            "and so does --mode freeze --force%s",
            tid, p->base.pid,
            AS_RESULT_CAN_BE_REPLACED ? ", which makes the sleep begin anew"
                                      : ", if you know that the filter allows it");
    }
    return true;
}

// --- While it is stopped, and after ---

void as_restart_guard(struct as_tracee *tracee)
{
    if (tracee->guarded || tracee->group_stopped || // a stop may be inspected twice
        !as_registers_restarts_elsewhere(tracee->tid, &tracee->sleep) ||
        (!AS_RESULT_CAN_BE_REPLACED && !is_restarted_elsewhere(&tracee->sleep)) || !is_filtered(tracee->tid))
        return;
    tracee->guarded = true;
    // (A sleep that had been restarted already cannot be made again by its number.)
    as_registers_replace_result(tracee->tid,
                                tracee->sleep.call == SYS_restart_syscall ? AS_FAIL_WITH_EINTR : AS_MAKE_AGAIN);
}

bool as_restart_awaits_stop(const struct as_process *p, pid_t tid)
{
    char state = as_proc_state(tid);
    if (as_proc_is_dead(state) || !is_filtered(tid))
        return false;
    struct as_sleep sleep;
    bool unknown;
    // (What one that is to run sleeps in, the kernel does not say.)
    return state != 'D' || (read_sleep(p, tid, &sleep, &unknown) ? is_restarted_elsewhere(&sleep) : unknown);
}

static void let_go(struct as_tracee *tracee, int signal)
{
    ptrace(PTRACE_SETOPTIONS, tracee->tid, 0, 0);
    ptrace(PTRACE_DETACH, tracee->tid, 0, (long)signal);
}

static bool read_stat(pid_t tid, struct as_proc_stat *out)
{
    return as_proc_stat(AT_FDCWD, as_proc_name("/proc/%d/stat", tid).text, out);
}

bool as_restart_escort(const struct as_process *p, struct as_tracee *tracee)
{
    if (!tracee->guarded || tracee->signal != 0 || p->escort != AS_ESCORT_ALLOWED ||
        (AS_RESULT_CAN_BE_REPLACED && keeps_deadline(&tracee->sleep)))
        return false;
    struct as_proc_stat stat;
    if (ptrace(PTRACE_SETOPTIONS, tracee->tid, 0, PTRACE_O_TRACESYSGOOD) != 0 || !read_stat(tracee->tid, &stat))
        return false;
    tracee->ticks = stat.ticks;
    as_registers_replace_result(tracee->tid, AS_RESTART_ELSEWHERE);
    ptrace(PTRACE_SYSCALL, tracee->tid, 0, 0); // fails where it has been killed: serve finds out
    tracee->escorted = true;
    tracee->stopped = tracee->guarded = tracee->suspended = tracee->entered = false;
    return true;
}

// At the entry of a call the filter has not been asked yet; it is suspended for restart_syscall alone. (Another thread of a hostile
// target may have changed the instruction that makes the call.) A detach there would interrupt the call at once, so that it is
// awaited whichever it is.
static bool step_at_call(struct as_tracee *tracee, bool halt)
{
    struct as_syscall_information info = {0};
    ptrace(AS_GET_SYSCALL_INFO, tracee->tid, sizeof info, &info);
    bool enters = info.kind == AS_AT_ENTRY;
    bool restarts = enters && info.value == SYS_restart_syscall && info.arch == AS_AUDIT_ARCH;
    bool interrupted = info.kind == AS_AT_EXIT && as_is_restart(info.value);
    long suspend = restarts ? AS_SUSPEND_SECCOMP : 0;
    if (!enters && !interrupted)
        return false;
    if (halt) // any stop takes back an interrupt that is under way
        ptrace(PTRACE_INTERRUPT, tracee->tid, 0, 0);
    tracee->suspended = restarts;
    tracee->entered = enters;
    ptrace(PTRACE_SETOPTIONS, tracee->tid, 0, PTRACE_O_TRACESYSGOOD | suspend);
    ptrace(PTRACE_SYSCALL, tracee->tid, 0, 0);
    return true;
}

// Has the thread's process a handler for the signal? With one, the signal ends the sleep (EINTR).
static bool is_caught(pid_t tid, int signal)
{
    uint64_t caught = as_proc_status_mask(AT_FDCWD, as_proc_name("/proc/%d/status", tid).text, "SigCgt:");
    return caught != AS_PROC_NONE && (caught >> (signal - 1) & 1) != 0;
}

bool as_restart_step(struct as_tracee *tracee, int status, bool halt)
{
    int signal = status & 0xff;
    bool event = status >> 8 != 0; // our interrupt, or (all but SIGTRAP) a group stop
    if (status == AS_SYSCALL_STOP && step_at_call(tracee, halt))
        return true;
    if (status == AS_SYSCALL_STOP || (event && signal != SIGTRAP) || (!event && is_caught(tracee->tid, signal))) {
        let_go(tracee, status == AS_SYSCALL_STOP || event ? 0 : signal);
        return false;
    }
    ptrace(PTRACE_SYSCALL, tracee->tid, 0, event ? 0L : (long)signal);
    return true;
}

size_t as_restart_escorted(const struct as_process *p)
{
    size_t count = 0;
    for (size_t i = 0; i < p->tracees.count; ++i)
        count += p->tracees.items[i].escorted;
    return count;
}

// Is it still ours?
static bool serve_one(struct as_tracee *tracee)
{
    siginfo_t info = {0};
    while (waitid(P_PID, (id_t)tracee->tid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL | WNOHANG) < 0) {
        if (errno != EINTR)
            return false;
    }
    if (info.si_pid == 0)
        return true;
    if (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED)
        return as_restart_step(tracee, info.si_status, false);
    waitpid(tracee->tid, NULL, __WALL | WNOHANG);
    return false;
}

void as_restart_serve(struct as_process *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->tracees.count; ++i) {
        struct as_tracee *tracee = &p->tracees.items[i];
        if (!tracee->escorted || serve_one(tracee))
            p->tracees.items[kept++] = *tracee;
    }
    p->tracees.count = kept;
}

// Has it passed its filter, or ended? Only one that sleeps has: of one that is about to run (TASK_WAKING) the kernel shows
// the call, too, though it has not been begun. One that runs and runs makes no call any more: its code has been changed.
static bool is_settled(const struct as_tracee *tracee)
{
    struct as_proc_stat stat;
    if (!read_stat(tracee->tid, &stat) || as_proc_is_dead(stat.state))
        return true;
    bool sleeps = stat.state == 'S' || stat.state == 'D';
    return (sleeps && tracee->entered) || stat.ticks > tracee->ticks + MOST_TICKS;
}

void as_restart_settle(struct as_process *p)
{
    for (bool settled = false; !settled; sched_yield()) {
        as_restart_serve(p);
        settled = true;
        for (size_t i = 0; i < p->tracees.count; ++i)
            settled &= !p->tracees.items[i].escorted || is_settled(&p->tracees.items[i]);
    }
}

// Escorted threads that wake up are waited for. -1: there are none.
static int open_wakes(const struct as_process *p)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    return as_restart_escorted(p) > 0 ? signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
}

bool as_restart_serve_until(struct as_process *p, int socket, uint64_t due_ns)
{
    AS_CLEANUP_FD int wakes = open_wakes(p);
    struct pollfd others[] = {{.fd = socket, .events = POLLIN}, {.fd = wakes, .events = POLLIN}};
    for (;;) {
        // Also before the first wait: who waited for another thread has taken the signal of one that has woken up meanwhile.
        as_restart_serve(p);
        uint64_t now = as_now_ns();
        uint64_t left = due_ns > now ? due_ns - now : 0;
        struct timespec limit = as_time_of(left);
        int ready = ppoll(others, 2, due_ns == 0 ? NULL : &limit, NULL);
        if (ready <= 0 ? ready == 0 || errno != EINTR : others[0].revents != 0)
            return ready > 0;
        struct signalfd_siginfo wake;
        while (wakes >= 0 && read(wakes, &wake, sizeof wake) > 0)
            ;
    }
}
