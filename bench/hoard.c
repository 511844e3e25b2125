// SPDX-License-Identifier: MIT
// A process with a large heap for the benchmarks: THREADS threads fill their arenas with chunks of mixed sizes up to
// BYTES in all, free a share of them here and there, and park. Says "ready" on standard output, and waits for a line.
//
// On "clone" it makes one raw clone() of itself (fork without libc's atfork work) and prints how long the call took, in
// nanoseconds: the limit for the pause of a snapshot, as the target itself would pay it.
#include "base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t bytes_each;
static size_t mean;
static pthread_barrier_t filled;

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

// Sizes as in a Ruby or Python server: most small, few large; the mean is near `mean`.
static size_t draw(uint64_t *state)
{
    uint64_t r = next(state);
    if (r % 64 == 0)
        return mean * 16 + (r >> 32) % (mean * 16);
    return 16 + (r >> 32) % (mean * 3 / 2);
}

static void *fill(void *argument)
{
    uint64_t state = 0x9E3779B97F4A7C15u * ((uintptr_t)argument + 1);
    struct block {
        struct block *older;
    } *keep = NULL, *drop = NULL;
    for (size_t done = 0; done < bytes_each;) {
        size_t size = draw(&state);
        struct block *b = malloc(size);
        if (!b)
            abort();
        memset(b, 0x5a, size);
        done += size;
        struct block **list = next(&state) % 5 < 2 ? &drop : &keep;
        b->older = *list;
        *list = b;
    }
    for (struct block *b = drop; b;) {
        struct block *older = b->older;
        free(b);
        b = older;
    }
    pthread_barrier_wait(&filled);
    for (;;)
        pause();
    return keep;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: hoard MEGABYTES THREADS MEAN\n");
        return 2;
    }
    size_t threads = strtoul(argv[2], NULL, 10);
    bytes_each = strtoul(argv[1], NULL, 10) * 1000000 / threads;
    mean = strtoul(argv[3], NULL, 10);
    pthread_barrier_init(&filled, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, fill, (void *)i) != 0)
            return 1;
    }
    pthread_barrier_wait(&filled);
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (strcmp(line, "clone\n") != 0)
            continue;
        uint64_t before = as_clock_ns(CLOCK_MONOTONIC);
        long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (child == 0)
            _exit(0);
        uint64_t after = as_clock_ns(CLOCK_MONOTONIC);
        waitpid((pid_t)child, NULL, 0);
        printf("%" PRIu64 "\n", after - before);
        fflush(stdout);
    }
    return 0;
}
