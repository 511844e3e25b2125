// SPDX-License-Identifier: MIT
// asks_and_ends SIGNAL HOW: asks for a dump of itself, by that signal, and ends at once.
//
//   main    main() returns
//   thread  another thread calls exit()
//   short   another thread is sent the signal while it is in libc, and ends; then main() returns
//   child   a child of fork(), which has not asked, ends first
//   leaves  the first thread ends by pthread_exit, then the last one does
//   nobody  nobody asks
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 1000, SIZE = 4000 };

static int asked;
static void *blocks[BLOCKS];

// The signal has come when this returns, unless it is blocked: one that is sent to the process may be on its way to another thread.
static void ask(void)
{
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), asked);
}

static void *ends_all(void *unused)
{
    ask();
    exit(0);
    return unused;
}

static void *ends_itself(void *unused)
{
    ask();
    return unused;
}

// The signal comes while the thread is in libc, and the thread ends before the next attempt.
static void *is_sent(void *unused)
{
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, asked);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    ask();
    pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
    return unused;
}

static void run(void *(*function)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, NULL) != 0)
        abort();
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    asked = atoi(argv[1]);
    const char *how = argv[2];
    for (int i = 0; i < BLOCKS; i++)
        if (!(blocks[i] = malloc(SIZE)) || !memset(blocks[i], 1, SIZE))
            abort();
    if (strcmp(how, "thread") == 0) {
        run(ends_all);
    } else if (strcmp(how, "short") == 0) {
        run(is_sent);
    } else if (strcmp(how, "child") == 0) {
        ask();
        if (fork() == 0)
            exit(0);
        wait(NULL);
    } else if (strcmp(how, "leaves") == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, ends_itself, NULL) != 0)
            abort();
        pthread_exit(NULL);
    } else if (strcmp(how, "nobody") != 0) {
        ask();
    }
    return 0;
}
