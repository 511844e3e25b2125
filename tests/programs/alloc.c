// SPDX-License-Identifier: MIT
// Uses malloc a little, in three threads and in the first, says "ready", and waits: something for the lookup to find.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3, BLOCKS = 600 };

static pthread_barrier_t barrier;

static void use_malloc(void)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc((size_t)(24 + i * 7 % 1800));
    for (int i = 0; i < BLOCKS; i += 3)
        free(blocks[i]);
}

static void *run(void *nothing)
{
    use_malloc();
    pthread_barrier_wait(&barrier);
    pause();
    return nothing;
}

int main(void)
{
    pthread_t threads[THREADS];
    use_malloc();
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    pthread_barrier_wait(&barrier);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
