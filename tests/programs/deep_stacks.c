// SPDX-License-Identifier: MIT
// Three threads, each of which has once used so many MiB of its stack as its number says, and now waits. At a byte of
// input they end, and are joined.
#define _GNU_SOURCE
#include <alloca.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { THREADS = 3, MIB = 1 << 20 };
static pthread_barrier_t used, end;

static void use(size_t bytes)
{
    volatile char *memory = alloca(bytes);
    for (size_t i = 0; i < bytes; i += 512)
        memory[i] = 1;
}

static void *run(void *mib)
{
    pthread_setname_np(pthread_self(), "deep");
    use((uintptr_t)mib * MIB);
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&end);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    char go;
    pthread_barrier_init(&used, NULL, THREADS + 1);
    pthread_barrier_init(&end, NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    pthread_barrier_wait(&used);
    puts("ready");
    fflush(stdout);
    if (read(0, &go, 1) != 1)
        return 1;
    pthread_barrier_wait(&end);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    puts("ended");
    fflush(stdout);
    pause();
}
