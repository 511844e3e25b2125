// SPDX-License-Identifier: MIT
// A process for each cause of bloat that the report knows: makes it (argv[1]), says "ready", and waits to be inspected. On
// SIGUSR1 it calls malloc_trim(0), and says "trimmed".
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MIB = 1 << 20, THREADS = 8, MOST_BLOCKS = 400000 };

static pthread_barrier_t done;
static void *blocks[MOST_BLOCKS];

static void *filled(size_t size)
{
    void *block = malloc(size);
    if (!block)
        abort();
    return memset(block, 0x5a, size);
}

// So many blocks, of which every `keep`-th stays in use (0: none). With `keep` as large as `count`, the last of them.
static void allocate_and_free(void **mine, int count, size_t size, int keep)
{
    for (int i = 0; i < count; i++)
        mine[i] = filled(size);
    for (int i = 0; i < count; i++) {
        if (!keep || (i + 1) % keep)
            free(mine[i]);
    }
}

static void in_threads(void *(*run)(void *), int count, int stay)
{
    pthread_t threads[count];
    pthread_barrier_init(&done, NULL, (unsigned)count + 1);
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i))
            abort();
    }
    pthread_barrier_wait(&done);
    for (int i = 0; !stay && i < count; i++)
        pthread_join(threads[i], NULL);
}

// A thread that fills its arena, frees all, and idles: what it freed is its arena's top.
static void *fill_and_idle(void *nothing)
{
    void *mine[200];
    allocate_and_free(mine, 200, 64 << 10, 0);
    pthread_barrier_wait(&done);
    pause();
    return nothing;
}

// A thread that leaves free memory below something that outlives it, and ends.
static void *fill_and_end(void *which)
{
    void **mine = blocks + 400 * (intptr_t)which;
    allocate_and_free(mine, 200, 64 << 10, 100);
    pthread_barrier_wait(&done);
    return NULL;
}

// A thread with as much in its cache as it takes: seven chunks of each size.
static void *fill_cache(void *nothing)
{
    for (size_t size = 24; size <= 1032; size += 16) {
        void *mine[7];
        allocate_and_free(mine, 7, size, 0);
    }
    pthread_barrier_wait(&done);
    pause();
    return nothing;
}

static void raise_threshold(void)
{
    free(filled(16 * MIB)); // a mmapped block: from now on a top may grow to twice its size
}

static void await_requests(const sigset_t *requests)
{
    int signal;
    while (sigwait(requests, &signal) == 0) {
        malloc_trim(0);
        puts("trimmed");
    }
}

int main(int argc, char **argv)
{
    const char *cause = argc == 2 ? argv[1] : "";
    sigset_t requests;
    sigemptyset(&requests);
    sigaddset(&requests, SIGUSR1);
    sigprocmask(SIG_BLOCK, &requests, NULL);
    setvbuf(stdout, NULL, _IONBF, 0); // a buffer would be a large block, for which malloc tidies its fastbins up
    filled(1000);                     // a process that never used malloc is another matter
    if (!strcmp(cause, "free-pages")) {
        allocate_and_free(blocks, 1000, 64 << 10, 1000);
    } else if (!strcmp(cause, "withheld")) {
        raise_threshold();
        in_threads(fill_and_idle, THREADS, 1);
    } else if (!strcmp(cause, "main-top")) {
        raise_threshold();
        allocate_and_free(blocks, 200, 64 << 10, 0);
    } else if (!strcmp(cause, "top-and-below")) {
        raise_threshold();
        allocate_and_free(blocks, 400, 64 << 10, 150); // what is behind the second that stays is the top
    } else if (!strcmp(cause, "pins")) {
        allocate_and_free(blocks, 200000, 88, 60); // 96-byte chunks, one in use on most pages
        free(filled(64 << 10));                    // has malloc move what is in fastbins into bins
    } else if (!strcmp(cause, "idle-arenas")) {
        in_threads(fill_and_end, THREADS, 0);
    } else if (!strcmp(cause, "tcache")) {
        in_threads(fill_cache, 64, 1);
    } else if (!strcmp(cause, "fastbin")) {
        allocate_and_free(blocks, 400000, 88, 30);
    } else if (!strcmp(cause, "mmapped")) {
        for (int i = 0; i < 3; i++)
            filled((size_t)(i + 1) * 10 * MIB);
    } else if (!strcmp(cause, "not-malloc")) {
        void *own = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own == MAP_FAILED)
            abort();
        memset(own, 1, 64 * MIB);
    } else if (!strcmp(cause, "returned")) {
        allocate_and_free(blocks, 1000, 64 << 10, 1000);
        malloc_trim(0);
    } else if (!strcmp(cause, "in-use")) {
        allocate_and_free(blocks, 1000, 64 << 10, 1);
    } else {
        fprintf(stderr, "usage: causes CAUSE\n");
        return 2;
    }
    puts("ready");
    await_requests(&requests);
    return 0;
}
