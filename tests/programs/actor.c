// SPDX-License-Identifier: MIT
// A program that does to itself what real ones do, in the order of its arguments, with the agent in it: `actor hold 1000 200
// daemon mark /tmp/pid sleep`. tests/agent/test_agent.py knows the acts.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(70);
}

// Never freed: what a dump must find in use.
static void hold(long count, size_t size)
{
    for (long i = 0; i < count; i++) {
        void *block = malloc(size);
        check(block != NULL, "malloc");
        memset(block, 0x5a, size);
        *(void *volatile *)block = block;
    }
}

static void broken(const char *what)
{
    fprintf(stderr, "actor: %s\n", what);
    abort();
}

// Allocates, frees and checks what it wrote, for ever.
static void *storm(void *seed)
{
    enum { BLOCKS = 512 };
    static __thread struct {
        unsigned char *at;
        size_t size;
        unsigned char with;
    } blocks[BLOCKS];
    uint64_t state = (uint64_t)(uintptr_t)seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    for (;;) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        unsigned i = state % BLOCKS;
        if (blocks[i].at) {
            for (size_t k = 0; k < blocks[i].size; k += 97)
                if (blocks[i].at[k] != blocks[i].with)
                    broken("a block has changed");
            free(blocks[i].at);
        }
        blocks[i].size = 1 + (state >> 20) % ((state >> 10) % 16 ? 700 : 70000);
        blocks[i].with = (unsigned char)(state >> 40);
        blocks[i].at = malloc(blocks[i].size);
        if (!blocks[i].at)
            broken("out of memory");
        memset(blocks[i].at, blocks[i].with, blocks[i].size);
    }
    return NULL;
}

static void *naps(void *unused)
{
    usleep(1500000);
    return unused;
}

static void mark(const char *path)
{
    char partial[4096];
    snprintf(partial, sizeof partial, "%s.partial", path);
    FILE *f = fopen(partial, "w");
    check(f && fprintf(f, "%d\n", (int)getpid()) > 0 && fclose(f) == 0 && rename(partial, path) == 0, path);
}

// A signal does not cut it short.
static void nap(long ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0)
        check(errno == EINTR, "nanosleep");
}

// Until the test says so, by a file: it knows when it has seen what it wanted to see first.
static void await_file(const char *path)
{
    while (access(path, F_OK) != 0)
        nap(10);
}

static void close_all(void)
{
    for (int fd = 0; fd < 1024; fd++)
        close(fd);
}

static void on_signal(int signal)
{
    (void)signal;
}

static void daemonise(void)
{
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        check(child >= 0, "fork");
        if (child > 0)
            _exit(0);
        check(i > 0 || setsid() > 0, "setsid");
    }
    check(chdir("/") == 0, "chdir");
    close_all();
}

// The child goes on; its parent, preloaded too, waits for it.
static void fork_off(void)
{
    pid_t child = fork();
    int status;
    check(child >= 0, "fork");
    if (child == 0)
        return;
    while (waitpid(child, &status, 0) < 0)
        check(errno == EINTR, "waitpid");
    exit(WIFEXITED(status) ? WEXITSTATUS(status) : 71);
}

static int signal_named(const char *text)
{
    return strncmp(text, "RTMIN+", 6) == 0 ? SIGRTMIN + atoi(text + 6) : atoi(text);
}

// In application code and nowhere else.
static void compute(void)
{
    for (;;)
        __asm__ volatile("");
}

static void unblock(void)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR2);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

// The signal interrupts it in libc, and it ends.
static void *gets_signal(void *unused)
{
    unblock();
    kill(getpid(), SIGUSR2);
    return unused;
}

static void *goes_on(void *unused)
{
    unblock();
    compute();
    return unused;
}

// The signal, which is blocked here, is for a thread that ends at once. Another one is there later.
static void brief(void)
{
    pthread_t thread;
    check(pthread_create(&thread, NULL, gets_signal, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
    nap(50);
    check(pthread_create(&thread, NULL, goes_on, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}

static void wait_in_epoll(void)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event;
    for (;;)
        check(epoll_wait(fd, &event, 1, -1) >= 0 || errno == EINTR, "epoll_wait");
}

// Allocates until the file is there, and is never kept waiting for so long.
static volatile uint64_t computed;

static void hurry(long most_ms, const char *path)
{
    while (access(path, F_OK) != 0) {
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        free(malloc(5000));
        clock_gettime(CLOCK_MONOTONIC, &after);
        if ((after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000 > most_ms)
            broken("malloc kept us waiting");
        // Time outside of libc: a thread that is always within it is not interrupted for a dump.
        for (int i = 0; i < 2000; i++)
            computed++;
    }
}

static void ended(void *unused)
{
    (void)unused;
    broken("the thread has ended inside a handler");
}

static void *computes(void *unused)
{
    pthread_cleanup_push(ended, NULL);
    for (uint64_t end = UINT64_MAX; computed < end; computed++)
        ;
    pthread_cleanup_pop(0);
    return unused;
}

// A thread that has been told to end, and will at its next call of the kernel's, is sent the signal when there is no memory for
// another thread.
static void cancelled(void)
{
    pthread_t thread;
    check(pthread_create(&thread, NULL, computes, NULL) == 0, "pthread_create");
    while (computed == 0)
        nap(10);
    check(pthread_cancel(thread) == 0, "pthread_cancel");
    check(setrlimit(RLIMIT_AS, &(struct rlimit){0}) == 0 && pthread_kill(thread, SIGUSR2) == 0, "pthread_kill");
    nap(500);
    for (uint64_t before = computed; computed == before;)
        nap(10);
    _exit(0);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *act = argv[i];
        if (strcmp(act, "hold") == 0) {
            hold(atol(argv[i + 1]), (size_t)atol(argv[i + 2]));
            i += 2;
        } else if (strcmp(act, "storm") == 0) {
            for (intptr_t n = atol(argv[++i]); n > 0; n--) {
                pthread_t thread;
                check(pthread_create(&thread, NULL, storm, (void *)n) == 0, "pthread_create"); // NOLINT
            }
        } else if (strcmp(act, "mark") == 0) {
            mark(argv[++i]);
        } else if (strcmp(act, "daemon") == 0) {
            daemonise();
        } else if (strcmp(act, "fork") == 0) {
            fork_off();
        } else if (strcmp(act, "exec") == 0) {
            execv(argv[i + 1], argv + i + 1);
            check(0, "execv");
        } else if (strcmp(act, "setuid") == 0) {
            uid_t user = (uid_t)atoi(argv[++i]);
            check(setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0, "setuid");
        } else if (strcmp(act, "chroot") == 0) {
            check(chroot(argv[++i]) == 0 && chdir("/") == 0, "chroot");
        } else if (strcmp(act, "block") == 0) {
            sigset_t one;
            sigemptyset(&one);
            sigaddset(&one, signal_named(argv[++i]));
            sigprocmask(SIG_BLOCK, &one, NULL);
        } else if (strcmp(act, "await") == 0) { // this signal, which is blocked in every thread, so many times
            sigset_t one;
            int got;
            sigemptyset(&one);
            sigaddset(&one, signal_named(argv[++i]));
            for (long n = atol(argv[++i]); n > 0; n--)
                check(sigwait(&one, &got) == 0, "sigwait");
        } else if (strcmp(act, "handle") == 0) {
            signal(signal_named(argv[++i]), on_signal);
        } else if (strcmp(act, "ignore") == 0) {
            signal(signal_named(argv[++i]), SIG_IGN);
        } else if (strcmp(act, "until") == 0) {
            await_file(argv[++i]);
        } else if (strcmp(act, "leave") == 0) { // the main thread ends, and the process a little later
            pthread_t thread;
            check(pthread_create(&thread, NULL, naps, NULL) == 0, "pthread_create");
            pthread_exit(NULL);
        } else if (strcmp(act, "busy") == 0) {
            storm((void *)1);
        } else if (strcmp(act, "compute") == 0) {
            compute();
        } else if (strcmp(act, "hurry") == 0) {
            hurry(atol(argv[i + 1]), argv[i + 2]);
            i += 2;
        } else if (strcmp(act, "cancelled") == 0) {
            cancelled();
        } else if (strcmp(act, "brief") == 0) {
            brief();
        } else if (strcmp(act, "epoll") == 0) {
            wait_in_epoll();
        } else if (strcmp(act, "sleep") == 0) {
            for (;;)
                pause();
        } else {
            fprintf(stderr, "actor: %s?\n", act);
            return 64;
        }
    }
    return 0;
}
