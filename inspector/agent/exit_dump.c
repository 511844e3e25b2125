// SPDX-License-Identifier: MIT
// A program that asks for a dump of itself at its end would be gone before the worker thread has written the dump, or
// has begun. At exit() the agent may call malloc and the loader: the thread is started here if the signal's handler
// could not.
#include "agent/agent.h"
#include "agent/log.h"
#include "agent/signals.h"
#include "agent/worker.h"
#include "base/clock.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATIENCE_SECONDS = 30 };

// Waits until so many dumps are finished. A sandbox may let the thread end before its first dump.
static bool wait_for(uint32_t wanted)
{
    const struct timespec piece = {.tv_sec = 1};
    const uint64_t until = as_clock_ns(CLOCK_MONOTONIC) + PATIENCE_SECONDS * UINT64_C(1000000000);
    for (;;) {
        uint32_t finished = __atomic_load_n(&as_agent.finished, __ATOMIC_ACQUIRE);
        if ((int32_t)(finished - wanted) >= 0)
            return true;
        if (as_clock_ns(CLOCK_MONOTONIC) >= until ||
            __atomic_load_n(&as_agent.worker, __ATOMIC_ACQUIRE) == AS_AGENT_WORKER_NONE)
            return false;
        syscall(SYS_futex, &as_agent.finished, FUTEX_WAIT_PRIVATE, finished, &piece, NULL, 0);
    }
}

// A signal that was sent to the process may not have reached its thread yet. A change of this thread's mask makes the kernel give it to
// this one.
static void take_signal(void)
{
    const uint64_t all = UINT64_MAX;
    uint64_t before;
    if (syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, sizeof before) == 0)
        syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}

// A sandbox may end the process for any call but those that libc's threads need: others are made only where a dump is to be waited for.
static void at_exit(void)
{
    take_signal();
    uint32_t wanted = __atomic_load_n(&as_agent.wanted, __ATOMIC_SEQ_CST);
    if (wanted == __atomic_load_n(&as_agent.finished, __ATOMIC_ACQUIRE))
        return;
    if (as_agent.pid != (pid_t)syscall(SYS_getpid)) // a child of vfork() runs in its parent's memory
        return;
    int failed = as_agent_worker_start();
    if (failed) {
        as_log("no dump: no thread could be started for it at exit(): %s", strerror(failed));
        return;
    }
    as_agent_worker_wake();
    if (!wait_for(wanted))
        as_log("the process ends before the dump that was asked for is written (the limit is %d s)", PATIENCE_SECONDS);
}

void as_exit_dump_on(void)
{
    static uint32_t on;
    if (__atomic_exchange_n(&on, 1, __ATOMIC_ACQ_REL) == 0 && atexit(at_exit) != 0)
        as_log("no handler can be registered for exit(): a dump that is asked for shortly before may be lost");
}
