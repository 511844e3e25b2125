// SPDX-License-Identifier: MIT
// A thread that is escorted through a call is let go of, also where its signal was taken by a wait for another thread.
#include "target/process/stop/restart.h"
#include "target_util.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/socket.h>

static volatile int *ready;

static void sleep_again_and_again(void)
{
    for (*ready = 1;;)
        sleep_ms(1);
}

// A child that has stopped at a system call, traced by us, and nobody has been told.
static pid_t start_stopped(void)
{
    *ready = 0;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        sleep_again_and_again();
    await(ready);
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0 && ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    await_state(pid, 't');
    CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
    await_state(pid, 't');
    return pid;
}

int main(void)
{
    int sockets[2];
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    alarm(100);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0);
    ready = share(sizeof *ready);
    pid_t pid = start_stopped();
    struct as_target *t = open_process(pid);
    struct as_process *p = as_process_of(t);
    struct as_tracee *tracee = as_vec_add(&p->tracees, NULL);
    CHECK(tracee);
    *tracee = (struct as_tracee){.tid = pid, .escorted = true};
    while (sigtimedwait(&child, NULL, &(struct timespec){0}) > 0)
        ;
    while (p->tracees.count > 0)
        CHECK(!as_restart_serve_until(p, sockets[0], as_now_ns() + 10000000));
    await_state(pid, 'S');
    as_target_close(t);
    end_child(pid);
    return 0;
}
