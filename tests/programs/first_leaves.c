// SPDX-License-Identifier: MIT
// Its first thread ends by pthread_exit(), and others go on: /proc/PID then says that the process is a zombie.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 2000, SIZE = 1000 };

static pthread_barrier_t filled; // by all

static void *stay(void *first)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *block = malloc(SIZE);
        if (!block)
            abort();
        memset(block, 1, SIZE);
    }
    pthread_barrier_wait(&filled);
    if (first && pthread_join(*(pthread_t *)first, NULL) == 0) {
        puts("ready");
        fflush(stdout);
    }
    for (;;)
        pause();
}

int main(void)
{
    static pthread_t first;
    pthread_t thread;
    first = pthread_self();
    if (pthread_barrier_init(&filled, NULL, THREADS) != 0)
        return 1;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, stay, i == 0 ? &first : NULL) != 0)
            return 1;
    pthread_exit(NULL);
}
