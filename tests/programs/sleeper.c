// SPDX-License-Identifier: MIT
// sleeper RULE CALL MS THREADS BLOCKS: allocates so many blocks, puts itself under a seccomp filter, says "ready", and sleeps in
// one system call again and again, for MS milliseconds each time. Between two sleeps it allocates and frees. RULE: what the filter
// does at restart_syscall, by which the kernel goes on with an interrupted sleep: kill, allow; or none: there is no filter.
//
// THREADS 0: the program itself sleeps. Else so many threads do, and for each byte of its standard input it says how often they
// have. After each sleep that did not end as it should (too early, or with an error) a line says so. SIGUSR1 is caught, and
// ends a sleep.
//
// Written by hand, as libc may make another call than the one that is asked for.
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long ms;
static unsigned word;
static atomic_long sleeps;

static struct timespec after(long milliseconds, clockid_t clock)
{
    struct timespec at = {0};
    if (clock >= 0)
        clock_gettime(clock, &at);
    at.tv_nsec += milliseconds % 1000 * 1000000;
    at.tv_sec += milliseconds / 1000 + at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

enum { RELATIVE = -1 };

static long in_nanosleep(void)
{
    struct timespec limit = after(ms, RELATIVE);
    return syscall(SYS_nanosleep, &limit, NULL);
}

static long in_nanosleep_in_place(void)
{
    struct timespec limit = after(ms, RELATIVE);
    return syscall(SYS_nanosleep, &limit, &limit);
}

static long in_clock_nanosleep(void)
{
    struct timespec limit = after(ms, RELATIVE);
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &limit, NULL);
}

static long in_clock_nanosleep_until(void)
{
    struct timespec limit = after(ms, CLOCK_MONOTONIC);
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &limit, NULL);
}

static long in_futex(void)
{
    struct timespec limit = after(ms, RELATIVE);
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &limit, NULL, 0);
}

static long in_futex_until(void)
{
    struct timespec limit = after(ms, CLOCK_MONOTONIC);
    return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &limit, NULL, FUTEX_BITSET_MATCH_ANY);
}

static long in_futex_endless(void)
{
    return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

#ifdef SYS_poll
static long in_poll(void)
{
    return syscall(SYS_poll, NULL, 0, ms);
}

static long in_poll_endless(void)
{
    return syscall(SYS_poll, NULL, 0, -1);
}
#endif

static long in_ppoll(void)
{
    struct timespec limit = after(ms, RELATIVE);
    return syscall(SYS_ppoll, NULL, 0, &limit, NULL, 8);
}

static long in_pselect(void)
{
    struct timespec limit = after(ms, RELATIVE);
    return syscall(SYS_pselect6, 0, NULL, NULL, NULL, &limit, NULL);
}

static long in_epoll_endless(void)
{
    struct epoll_event event;
    static int fd = -1;
    if (fd < 0)
        fd = epoll_create1(0);
    return syscall(SYS_epoll_pwait, fd, &event, 1, -1, NULL, 8);
}

static const struct way {
    const char *name;
    long (*sleep)(void);
    int error; // at its end
} ways[] = {
    {"nanosleep", in_nanosleep, 0},
    {"nanosleep_in_place", in_nanosleep_in_place, 0},
    {"clock_nanosleep", in_clock_nanosleep, 0},
    {"clock_nanosleep_until", in_clock_nanosleep_until, 0},
    {"futex", in_futex, ETIMEDOUT},
    {"futex_until", in_futex_until, ETIMEDOUT},
    {"futex_endless", in_futex_endless, ETIMEDOUT},
#ifdef SYS_poll
    {"poll", in_poll, 0},
    {"poll_endless", in_poll_endless, 0},
#endif
    {"ppoll", in_ppoll, 0},
    {"pselect", in_pselect, 0},
    {"epoll_endless", in_epoll_endless, 0},
};

static void say(const char *format, const char *name, const char *what, long number)
{
    char line[256];
    int length = snprintf(line, sizeof line, format, name, what, number);
    if (write(1, line, (size_t)length) != length)
        _exit(1);
}

static int64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static void *sleep_on(void *argument)
{
    const struct way *way = argument;
    for (unsigned i = 0;; i++) {
        int64_t began = now_ns();
        errno = 0;
        long result = way->sleep();
        int error = result < 0 ? errno : 0;
        long took = (long)((now_ns() - began) / 1000000);
        if (error != way->error || took < ms)
            say("%s: %s after %ld ms\n", way->name, error ? strerror(error) : "ended", took);
        sleeps++;
        void *volatile block = malloc(i % 5000);
        free(block);
    }
    return NULL;
}

static void filter(unsigned verdict)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_restart_syscall, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        err(1, "seccomp");
}

static void hold(long blocks)
{
    static void *volatile held;
    for (long i = 0; i < blocks; i++) {
        void **block = malloc(24);
        if (!block)
            errx(1, "no memory");
        *block = held;
        held = block;
    }
}

static void wake(int signal)
{
    (void)signal;
}

int main(int count, char **words)
{
    if (count != 6)
        errx(2, "sleeper RULE CALL MS THREADS BLOCKS");
    ms = strtol(words[3], NULL, 10);
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = wake}, NULL);
    if (strcmp(words[1], "none") != 0)
        filter(strcmp(words[1], "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW);
    const struct way *way = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, words[2]) == 0)
            way = &ways[i];
    if (!way)
        errx(77, "no call %s on this machine", words[2]);
    for (long i = 0; i < strtol(words[4], NULL, 10); i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sleep_on, (void *)way) != 0)
            errx(1, "no thread");
    }
    hold(strtol(words[5], NULL, 10));
    say("ready\n", "", "", 0);
    if (strcmp(words[4], "0") == 0)
        sleep_on((void *)way);
    char byte;
    while (read(0, &byte, 1) == 1)
        say("%s%s%ld sleeps\n", "", "", sleeps);
    return 0;
}
