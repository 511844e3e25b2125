// SPDX-License-Identifier: MIT
// Its first thread ends by pthread_exit() when it gets SIGUSR1, and another one, as the last, when there is a file "go". Then exit() has
// much to do: to write what stdio has not written yet, to run a handler that uses a file that is open, and one in the working
// directory, and to end with the handler's own code. `last_leaves late`: the other thread begins when the first one is about to end;
// `last_leaves fork`: all this in the child of a thread.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CODE = 7 };

static FILE *own;
static const char *how;

static void check(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    _exit(70);
}

static void mark(const char *name)
{
    char partial[100], path[100];
    snprintf(partial, sizeof partial, "../%s.partial", name);
    snprintf(path, sizeof path, "../%s", name);
    FILE *f = fopen(partial, "w");
    check(f && fprintf(f, "%d\n", (int)getpid()) > 0 && fclose(f) == 0 && rename(partial, path) == 0, path);
}

static void at_exit(void)
{
    sigset_t blocked;
    FILE *f = fopen("said", "w");
    if (f) {
        pthread_sigmask(SIG_BLOCK, NULL, &blocked);
        for (int i = 1; i < SIGRTMIN; i++)
            if (sigismember(&blocked, i) == 1)
                fprintf(f, "%d blocked\n", i);
        fclose(f);
    }
    fputs("ended\n", own);
    exit(CODE);
}

static char state_of_first(void)
{
    char text[200] = "";
    FILE *f = fopen("/proc/self/stat", "r");
    check(f && fgets(text, sizeof text, f), "stat");
    fclose(f);
    return strrchr(text, ')')[2];
}

static void *stay(void *first)
{
    mark("mark");
    // In a child of fork(), glibc 2.43 does not notice its end.
    if (strcmp(how, "fork") != 0)
        check(pthread_join(*(pthread_t *)first, NULL) == 0, "pthread_join");
    while (state_of_first() != 'Z')
        poll(NULL, 0, 10);
    mark("left");
    while (access("../go", F_OK) != 0)
        poll(NULL, 0, 10);
    return NULL;
}

static void begin_to_stay(void)
{
    static pthread_t first;
    pthread_t thread;
    first = pthread_self();
    check(pthread_create(&thread, NULL, stay, &first) == 0, "pthread_create");
}

static void *leave(void *unused)
{
    (void)unused;
    sigset_t usr1;
    int got;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    own = fopen("own", "w");
    check(own && fputs("begun\n", own) >= 0, "own");
    check(mkdir("below", 0700) == 0 && chdir("below") == 0, "below");
    check(atexit(at_exit) == 0, "atexit");
    printf("written by exit()\n");
    if (strcmp(how, "late") == 0)
        mark("mark");
    else
        begin_to_stay();
    check(sigwait(&usr1, &got) == 0, "sigwait");
    if (strcmp(how, "late") == 0)
        begin_to_stay();
    pthread_exit(NULL);
}

static void *fork_off(void *unused)
{
    int status;
    pid_t child = fork();
    check(child >= 0, "fork");
    if (child == 0)
        leave(unused);
    check(waitpid(child, &status, 0) == child, "waitpid");
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 71);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "fork") != 0)
        leave(NULL);
    check(pthread_create(&thread, NULL, fork_off, NULL) == 0, "pthread_create");
    pthread_join(thread, NULL);
}
