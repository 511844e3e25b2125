// SPDX-License-Identifier: MIT
#include "target/process/stop/await.h"
#include "target/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

bool as_tracee_await(pid_t tid, uint64_t deadline_ns, int *stop)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    for (;;) {
        siginfo_t info = {0};
        int got = waitid(P_PID, (id_t)tid, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL | WNOHANG);
        *stop = info.si_status;
        if (got == 0 && (info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED))
            return true;
        // The end of a group's leader is not told before its other threads, which we hold as well, have been waited for:
        // one must not wait for it (as_process_resume does, for all).
        struct as_proc_stat stat;
        if ((got != 0 && errno != EINTR) || info.si_pid != 0 ||
            !as_proc_stat(AT_FDCWD, as_proc_name("/proc/%d/stat", tid).text, &stat) || as_proc_is_dead(stat.state))
            return false;
        if (deadline_ns != UINT64_MAX && as_now_ns() > deadline_ns) {
            *stop = 0;
            return true;
        }
        sigtimedwait(&child, NULL, &(struct timespec){.tv_nsec = 2000000});
    }
}
