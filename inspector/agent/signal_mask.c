// SPDX-License-Identifier: MIT
#include "agent/signal_mask.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The signals that a write may raise in the writing thread, and which end a process that has no handler for them: for a file beyond
// RLIMIT_FSIZE, and for a log whose reader has gone.
static const int raised[] = {SIGXFSZ, SIGPIPE};

static uint64_t bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

void as_signal_mask_block(struct as_signal_mask *mask)
{
    // All but those that libc itself needs (32 and 33, which setuid() waits for) and those that a fault raises.
    uint64_t blocked = ~UINT64_C(0);
    const int open[] = {32, 33, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        blocked &= ~bit(open[i]);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &blocked, &mask->before, sizeof blocked);
    syscall(SYS_rt_sigpending, &mask->pending, sizeof mask->pending);
}

void as_signal_mask_restore(const struct as_signal_mask *mask)
{
    for (size_t i = 0; i < sizeof raised / sizeof *raised; i++) {
        uint64_t one = bit(raised[i]) & ~mask->pending;
        siginfo_t info;
        // A signal of the kernel's has this process's pid. A signal that another process sent is sent again.
        if (one != 0 && syscall(SYS_rt_sigtimedwait, &one, &info, &(struct timespec){0}, sizeof one) > 0 &&
            info.si_pid != getpid())
            syscall(SYS_kill, getpid(), raised[i]);
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask->before, NULL, sizeof mask->before);
}
