// SPDX-License-Identifier: MIT
// Starts threads (200, or as many as are asked for) and executes itself as soon as they are there, again and again, from its main thread
// or (`other`) from another one.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 200 };

static char **words;

static void *wait_for_the_end(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void *execute(void *unused)
{
    execv("/proc/self/exe", words);
    abort();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    words = argv;
    if (argc < 2)
        return 1;
    int threads = argc > 3 ? atoi(argv[3]) : THREADS;
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread, NULL, wait_for_the_end, NULL) != 0)
            abort();
    if (argc > 2 && pthread_create(&thread, NULL, execute, NULL) == 0)
        wait_for_the_end(NULL);
    execute(NULL);
}
