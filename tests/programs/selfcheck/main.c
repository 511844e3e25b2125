// SPDX-License-Identifier: MIT
// selfcheck [NAME=N]...: says "ready", works as struct options says, and answers commands on stdin: "report" with a line of
// JSON, "quit" with a last one. "exec" makes it another program, cat, at once; "busy" one that never waits. Exit code 0: unharmed.
#define _GNU_SOURCE
#include "selfcheck.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

atomic_bool stopping;

enum { MAX_CALLS = 32, MAX_THREADS = 256 };
static atomic_ulong checks, harms;
static char first_harm[300];
static struct {
    const char *_Atomic name;
    atomic_ulong count;
} interruptions[MAX_CALLS];
static pthread_t threads[MAX_THREADS];
static size_t thread_count;

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void checked(void)
{
    atomic_fetch_add_explicit(&checks, 1, memory_order_relaxed);
}

void harmed(const char *format, ...)
{
    if (atomic_fetch_add(&harms, 1) != 0)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(first_harm, sizeof first_harm, format, args);
    va_end(args);
}

void interrupted(const char *call)
{
    for (int i = 0; i < MAX_CALLS; i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&interruptions[i].name, &none, call) || none == call) {
            atomic_fetch_add(&interruptions[i].count, 1);
            return;
        }
    }
}

struct work {
    void *(*run)(void *);
    void *argument;
    int open;
};
static struct work works[MAX_THREADS];

static void *begin(void *argument)
{
    const struct work *work = argument;
    sigset_t set;
    sigemptyset(&set);
    if (work->open)
        sigaddset(&set, work->open);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return work->run(work->argument);
}

int create_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    enum { TRIES = 60000 };
    int error = EAGAIN;
    for (int i = 0; error == EAGAIN && i < TRIES; i++) {
        error = pthread_create(thread, NULL, run, argument);
        if (error == EAGAIN)
            usleep(1000);
    }
    return error;
}

void start(void *(*run)(void *), void *argument, int open)
{
    // No other thread may take its signal, the first one included: not even for the time until this one exists.
    sigset_t set;
    sigfillset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    if (thread_count == MAX_THREADS)
        abort();
    works[thread_count] = (struct work){run, argument, open};
    if (pthread_create(&threads[thread_count], NULL, begin, &works[thread_count]) != 0)
        abort();
    thread_count++;
}

static void report(void)
{
    printf("{\"checks\": %lu, \"harms\": %lu, \"first_harm\": \"%s\", \"eintr\": {", checks, harms, first_harm);
    for (int i = 0; i < MAX_CALLS && interruptions[i].name; i++)
        printf("%s\"%s\": %lu", i ? ", " : "", interruptions[i].name, interruptions[i].count);
    puts("}}");
    fflush(stdout);
}

static bool option(const char *text, const char *name, unsigned *value)
{
    size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != '=')
        return false;
    *value = (unsigned)strtoul(text + length + 1, NULL, 10);
    return true;
}

// Waits until there is something to read, by epoll_wait, if so.
static void await_command(bool shy)
{
    static int epoll = -1;
    struct epoll_event event = {.events = EPOLLIN};
    if (!shy)
        return;
    if (epoll < 0) {
        epoll = epoll_create1(EPOLL_CLOEXEC);
        epoll_ctl(epoll, EPOLL_CTL_ADD, STDIN_FILENO, &event);
    }
    while (epoll_wait(epoll, &event, 1, -1) != 1)
        ;
}

int main(int argc, char **argv)
{
    struct options o = {.blocks = 1000};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const struct {
        const char *name;
        unsigned *value;
        void (*start)(void);
    } kinds[] = {
        {"storm", &o.storm, NULL},
        {"blocks", &o.blocks, NULL},
        {"waits", &o.waits, waits_start},
        {"limits", &o.limits, limits_start},
        {"timers", &o.timers, timers_start},
        {"spins", &o.spins, spins_start},
        {"lives", &o.lives, lives_start},
        {"reaps", &o.reaps, reaps_start},
        {"forks", &o.forks, forks_start},
        {"threads", &o.threads, threads_start},
        {"setxid", &o.setxid, setxid_start},
        {"cancels", &o.cancels, cancels_start},
        {"plugins", &o.plugins, plugins_start},
        {"kernels", &o.kernels, kernels_start},
        {"clocks", &o.clocks, clocks_start},
        {"spawns", &o.spawns, spawns_start},
        {"rseqs", &o.rseqs, rseqs_start},
        {"shy", &o.shy, NULL},
    };
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (int i = 1; i < argc; i++) {
        int known = 0;
        while (known < KINDS && !option(argv[i], kinds[known].name, kinds[known].value))
            known++;
        if (known == KINDS) {
            fprintf(stderr, "selfcheck: what is '%s'?\n", argv[i]);
            return 2;
        }
    }
    static char out[4096];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    storm_start(&o);
    for (int i = 0; i < KINDS; i++)
        for (unsigned n = 0; kinds[i].start && n < *kinds[i].value; n++)
            kinds[i].start();
    puts("ready");
    fflush(stdout);
    // read, not stdio: a read that is cut short by us would be seen here.
    char line[64];
    for (ssize_t got; await_command(o.shy), (got = read(STDIN_FILENO, line, sizeof line)) != 0;) {
        if (got < 0)
            harmed("read of stdin failed: %m");
        else if (line[0] == 'q')
            break;
        else if (line[0] == 'b')
            execl("/bin/sh", "sh", "-c", "while :; do :; done", (char *)NULL);
        else if (line[0] == 'e')
            execl("/bin/cat", "cat", (char *)NULL);
        else
            report();
    }
    stopping = true;
    for (size_t i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    report();
    return harms != 0;
}
