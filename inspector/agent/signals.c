// SPDX-License-Identifier: MIT
// When the signal arrives, the handler counts it and wakes the worker thread.
//
// Where no worker thread runs yet, the handler starts it, if the interrupted code allows it (signal_safety.c). Else the handler
// arms a timer of the kernel's, which sends the signal again a little later, until the code does: to the same thread where the signal was
// sent to a thread, else to the process, as this thread may end before.
#include "agent/signals.h"
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/own_snapshot.h"
#include "agent/worker.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum {
    FIRST_NS = 1000000,
    LONGEST_NS = 100000000,
    TRIES = 100, // some nine seconds
};

static struct {
    uint32_t busy; // a handler is working with the timer; another one returns
    bool armed;
    int timer;
    uint32_t tries;
} again;

static bool is_echo(const siginfo_t *info)
{
    return info->si_code == SI_TIMER && info->si_value.sival_ptr == &again;
}

static void disarm(void)
{
    if (again.armed)
        syscall(SYS_timer_delete, again.timer);
    again.armed = false;
}

// Has the signal sent to this thread, or to the process, after `ns` of `clock`, or as the timer was first armed. A timer is a
// system call, not a thread; exec and exit end it, and a child of fork() does not get it.
static bool arm(clockid_t clock, uint64_t ns, bool to_thread)
{
    if (!again.armed) {
        struct sigevent event = {.sigev_notify = to_thread ? SIGEV_THREAD_ID : SIGEV_SIGNAL,
                                 .sigev_signo = __atomic_load_n(&as_agent.signal, __ATOMIC_RELAXED),
                                 .sigev_value.sival_ptr = &again};
        if (to_thread)
            event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
        if (event.sigev_signo == 0 || syscall(SYS_timer_create, clock, &event, &again.timer) != 0)
            return false;
        again.armed = true;
    }
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)}};
    return syscall(SYS_timer_settime, again.timer, 0, &when, NULL) == 0;
}

static void try_to_start(const siginfo_t *info, const void *context)
{
    if (__atomic_exchange_n(&again.busy, 1, __ATOMIC_ACQUIRE) != 0)
        return;
    bool echo = is_echo(info);
    if (!echo) {
        disarm(); // the timer may be that of another thread, which may have ended
        again.tries = 0;
    }
    if (as_signal_is_safe(context)) {
        disarm();
        int failed = as_agent_worker_start();
        if (failed)
            as_log("no thread could be started for the dump: %s", strerror(failed));
    } else if (++again.tries > TRIES) {
        disarm();
        as_log("no thread could be started for the dump: in %d attempts the interrupted thread was always inside "
               "malloc, the loader or libc, or could not be proven to be outside; send the signal again",
               TRIES);
    } else {
        uint64_t ns = (uint64_t)FIRST_NS << (again.tries < 7 ? again.tries - 1 : 7);
        if (!arm(CLOCK_MONOTONIC, ns < LONGEST_NS ? ns : LONGEST_NS, info->si_code == SI_TKILL))
            as_log("no thread could be started for the dump at this time, and no timer for another attempt: send the "
                   "signal again");
    }
    __atomic_store_n(&again.busy, 0, __ATOMIC_RELEASE);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    int saved = errno;
    // The kernel's pid, which libc might have cached: a child of vfork() shares all memory with its parent.
    if (syscall(SYS_getpid) == as_agent.pid) {
        if (!is_echo(info))
            __atomic_add_fetch(&as_agent.wanted, 1, __ATOMIC_SEQ_CST);
        as_agent_worker_wake();
        if (__atomic_load_n(&as_agent.worker, __ATOMIC_ACQUIRE) == AS_AGENT_WORKER_NONE)
            try_to_start(info, context);
    }
    errno = saved;
}

static bool is_ours(int signal)
{
    struct sigaction now;
    return signal > 0 && sigaction(signal, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_signal;
}

static bool install(int signal, struct as_error *err)
{
    int before = __atomic_load_n(&as_agent.signal, __ATOMIC_RELAXED);
    struct sigaction now;
    if (signal != 0 && !is_ours(signal)) {
        if (signal < 0 || sigaction(signal, NULL, &now) != 0)
            return as_fail(err, AS_USAGE, "signal %d cannot be used to ask for a dump", signal);
        if ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
            return as_fail(err, AS_DENIED,
                           "signal %d is taken: the application %s; choose another one (ARENASCOPE_SIGNAL)", signal,
                           now.sa_handler == SIG_IGN ? "ignores it" : "has a handler for it");
        // On the alternate stack if the thread has one (Go's threads must), and with nothing else on top of it.
        struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
        sigfillset(&ours.sa_mask);
        if (sigaction(signal, &ours, NULL) != 0)
            return as_fail_errno(err, AS_USAGE, "signal %d cannot be used to ask for a dump", signal);
    }
    __atomic_store_n(&as_agent.signal, signal, __ATOMIC_RELEASE);
    if (before != 0 && before != signal && is_ours(before)) {
        struct sigaction none = {.sa_handler = SIG_DFL};
        sigaction(before, &none, NULL);
    }
    return true;
}

bool as_signal_dump_on(int signal, const char *pattern, unsigned flags, struct as_error *err)
{
    char absolute[PATH_MAX];
    if (signal != 0 && !as_pattern_resolve(pattern, absolute, sizeof absolute))
        return as_fail(err, AS_USAGE, "the dumps' name '%s' is empty or too long, or the current directory has no name",
                       pattern);
    if (signal != 0) {
        as_agent_lock();
        memcpy(as_agent_pattern, absolute, strlen(absolute) + 1);
        as_agent.flags = flags;
        as_agent_unlock();
    }
    if (!install(signal, err))
        return false;
    if (signal != 0)
        as_exit_dump_on();
    return true;
}

// The timer counts the thread's own processor time, so it expires while the thread runs, and cuts no sleep short (SA_RESTART does not
// restart every sleep).
void as_signal_send_later(uint64_t cpu_ns)
{
    again.tries = 0;
    if (is_ours(as_agent.signal))
        arm(CLOCK_THREAD_CPUTIME_ID, cpu_ns, true);
}

// A child of fork() has none of its parent's timers.
void as_signal_forget(void)
{
    again.armed = false;
    again.busy = 0;
}

// Where a worker thread runs, it is woken. Else the signal is sent to this thread, so that the handler checks the interrupted code.
int as_signal_request_dump(void)
{
    int saved = errno;
    int signal = __atomic_load_n(&as_agent.signal, __ATOMIC_ACQUIRE);
    int code = ARENASCOPE_USAGE;
    if (signal != 0 && __atomic_load_n(&as_agent.worker, __ATOMIC_ACQUIRE) == AS_AGENT_WORKER_RUNNING) {
        __atomic_add_fetch(&as_agent.wanted, 1, __ATOMIC_RELEASE);
        as_agent_worker_wake();
        code = ARENASCOPE_OK;
    } else if (signal != 0 && is_ours(signal)) {
        bool sent = syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), signal) == 0;
        code = sent ? ARENASCOPE_OK : ARENASCOPE_DENIED;
    }
    errno = saved;
    return code;
}
