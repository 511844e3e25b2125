// SPDX-License-Identifier: MIT
// Children, threads and signals: none may be lost, and none may come that is not ours.
#define _GNU_SOURCE
#include "selfcheck.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 4, FAMILY = 4096 };

// Whom this process has forked, by pid modulo FAMILY; a pid comes round again much later.
static atomic_int family[FAMILY];

static void on_child(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    // waitpid may have come first and taken the child off the list; somebody else's child was never on it.
    if (family[(unsigned)info->si_pid % FAMILY] != info->si_pid)
        harmed("SIGCHLD from process %d, which is none of ours", info->si_pid);
}

// Forks, waits for any child, and expects just those; then none.
static void *forks(void *unused)
{
    (void)unused;
    while (!stopping) {
        pid_t born[CHILDREN];
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        pthread_sigmask(SIG_BLOCK, &child, NULL); // until it is on the list
        for (int i = 0; i < CHILDREN; i++) {
            born[i] = fork();
            if (born[i] == 0)
                _exit(10 + i);
            if (born[i] < 0)
                harmed("fork failed: %s", strerror(errno));
            else
                family[(unsigned)born[i] % FAMILY] = born[i];
        }
        pthread_sigmask(SIG_UNBLOCK, &child, NULL);
        for (int n = 0; n < CHILDREN;) {
            int status;
            pid_t got = waitpid(-1, &status, 0);
            if (got < 0 && errno == EINTR) // our own SIGCHLD
                continue;
            int i = 0;
            while (i < CHILDREN && born[i] != got)
                i++;
            if (i == CHILDREN || !WIFEXITED(status) || WEXITSTATUS(status) != 10 + i)
                harmed("waitpid gave %d with status %#x: %s", got, (unsigned)status, strerror(errno));
            n++;
        }
        if (waitpid(-1, NULL, 0) != -1 || errno != ECHILD)
            harmed("waitpid without children: %s", strerror(errno));
        if (waitpid(-1, NULL, WNOHANG) != -1 || errno != ECHILD)
            harmed("waitpid(WNOHANG) without children: %s", strerror(errno));
        checked();
        usleep(2000);
    }
    return NULL;
}

static void *short_life(void *argument)
{
    free(malloc(100));
    return argument;
}

static void *creates(void *unused)
{
    (void)unused;
    while (!stopping) {
        pthread_t threads[3];
        for (uintptr_t i = 0; i < 3; i++)
            if (create_thread(&threads[i], short_life, (void *)(i + 1)) != 0)
                harmed("pthread_create failed");
        for (uintptr_t i = 0; i < 3; i++) {
            void *got = NULL;
            if (pthread_join(threads[i], &got) != 0 || got != (void *)(i + 1))
                harmed("a thread came back with %p", got);
        }
        checked();
        usleep(1000);
    }
    return NULL;
}

// Signals with values, each to be delivered once and in order.
static atomic_int received;
static atomic_int receiver; // thread id

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    if (info->si_value.sival_int != received + 1)
        harmed("signal %d came after %d", info->si_value.sival_int, received);
    received = info->si_value.sival_int;
}

static void *is_signalled(void *unused)
{
    (void)unused;
    receiver = (int)syscall(SYS_gettid);
    uint64_t state = 1;
    while (!stopping) {
        if (received % 2)
            usleep(500);
        for (int i = 0; i < 1000; i++)
            draw(&state);
    }
    return NULL;
}

static void *signals(void *unused)
{
    (void)unused;
    for (int n = 1; !stopping; n++) {
        siginfo_t info = {.si_code = SI_QUEUE};
        info.si_pid = getpid();
        info.si_value.sival_int = n;
        while (!receiver && !stopping)
            usleep(100);
        if (stopping)
            break;
        uint64_t began = now_ns();
        // EAGAIN: the kernel has no room for it, or all that this user has queued, in whatever process, is too much.
        while (syscall(SYS_rt_tgsigqueueinfo, getpid(), receiver, SIGRTMIN + 1, &info) != 0) {
            if (errno != EAGAIN || now_ns() - began > UINT64_C(20000000000)) {
                harmed("a signal could not be sent: %s", strerror(errno));
                break;
            }
            usleep(1000);
        }
        began = now_ns();
        while (received != n && !stopping) {
            usleep(50);
            if (now_ns() - began > UINT64_C(20000000000)) {
                harmed("signal %d was lost", n);
                return NULL;
            }
        }
        checked();
    }
    return NULL;
}

void threads_start(void)
{
    start(creates, NULL, 0);
}

void lives_start(void)
{
    static bool once;
    if (once)
        return;
    once = true;
    struct sigaction action = {.sa_sigaction = on_child, .sa_flags = SA_SIGINFO | SA_RESTART | SA_NOCLDSTOP};
    sigaction(SIGCHLD, &action, NULL);
    action.sa_sigaction = on_signal;
    sigaction(SIGRTMIN + 1, &action, NULL);
    start(forks, NULL, SIGCHLD);
    start(creates, NULL, 0);
    start(is_signalled, NULL, SIGRTMIN + 1);
    start(signals, NULL, 0);
}
