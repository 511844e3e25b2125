// SPDX-License-Identifier: MIT
// Calls seteuid(), which changes nothing, beside another thread, and then waits for a futex (or for a signal). `held`: the other thread
// is in vfork() until there is a file "go", so that seteuid() waits for it, with the lock of the threads' stacks held.
// tests/agent/test_agent.py knows the marks.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int ready; // a child of vfork() writes into its parent's memory

static void mark(const char *path)
{
    FILE *file = fopen("marking", "w");
    if (!file || fprintf(file, "%d\n", (int)getpid()) < 0 || fclose(file) != 0 || rename("marking", path) != 0)
        exit(70);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *in_vfork(void *unused)
{
    pid_t child = vfork();
    if (child == 0) {
        ready = 1;
        while (access("go", F_OK) != 0)
            nap();
        _exit(0);
    }
    return unused;
}

static void *asleep(void *unused)
{
    ready = 1;
    for (;;)
        pause();
    return unused;
}

// Waits below a frame of some size: those of main()'s callers have addresses of the loader.
static __attribute__((noinline)) int wait_for(const char *how, pthread_t other)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    volatile char room[1024];
    for (size_t i = 0; i < sizeof room; i++)
        room[i] = 0;
    if (seteuid(geteuid()) != 0) // the words that it leaves on the stack are the last ones
        return 70;
    if (strcmp(how, "join") == 0)
        pthread_join(other, NULL);
    else if (strcmp(how, "cond") == 0) {
        pthread_mutex_lock(&mutex);
        pthread_cond_wait(&condition, &mutex);
    }
    return room[0];
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    pthread_t other;
    if (pthread_create(&other, NULL, strcmp(how, "held") == 0 ? in_vfork : asleep, NULL) != 0)
        return 70;
    while (!ready)
        nap();
    if (strcmp(how, "held") == 0)
        mark("mark");
    if (seteuid(geteuid()) != 0)
        return 70;
    mark("returned");
    if (wait_for(how, other) != 0)
        return 70;
    for (;;)
        pause();
}
