// SPDX-License-Identifier: MIT
// Grows to a peak and shrinks to a sixteenth of it, in cycles, then frees all. Arguments: THREADS PEAK_MIB CYCLES. In each
// cycle the blocks of a thread are freed, at random, by its neighbour.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALLEST = 4 << 10, LARGEST = 64 << 10, KEPT = 16 };

struct share {
    pthread_t thread;
    char **blocks; // a bag: its first `count` are there
    size_t count, room, bytes, target;
    size_t *sizes;
    uint64_t random, calls;
};

static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1d;
}

static void *grow(void *argument)
{
    struct share *share = argument;
    while (share->bytes < share->target && share->count < share->room) {
        size_t size = SMALLEST + next(&share->random) % (LARGEST - SMALLEST);
        char *block = calloc(1, size);
        if (!block) {
            perror("cycles: calloc");
            exit(1);
        }
        memset(block, 1, size); // calloc need not touch it
        share->blocks[share->count] = block;
        share->sizes[share->count++] = size;
        share->bytes += size;
        share->calls++;
    }
    return NULL;
}

static void *shrink(void *argument)
{
    struct share *share = argument;
    while (share->count && share->bytes > share->target) {
        size_t which = next(&share->random) % share->count;
        free(share->blocks[which]);
        share->bytes -= share->sizes[which];
        share->blocks[which] = share->blocks[--share->count];
        share->sizes[which] = share->sizes[share->count];
        share->calls++;
    }
    return NULL;
}

static void in_threads(struct share *shares, size_t threads, size_t target, void *(*work)(void *))
{
    for (size_t i = 0; i < threads; i++) {
        shares[i].target = target;
        if (pthread_create(&shares[i].thread, NULL, work, &shares[i])) {
            fprintf(stderr, "cycles: no thread could be started\n");
            exit(1);
        }
    }
    for (size_t i = 0; i < threads; i++)
        pthread_join(shares[i].thread, NULL);
}

static void mark(const char *name, size_t cycle)
{
    char line[64];
    printf("arenascope mark %s-%zu\n", name, cycle);
    if (!fgets(line, sizeof line, stdin))
        return;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: cycles THREADS PEAK_MIB CYCLES\n");
        return 2;
    }
    size_t threads = strtoull(argv[1], NULL, 10), peak = strtoull(argv[2], NULL, 10) << 20;
    size_t cycles = strtoull(argv[3], NULL, 10);
    if (!threads || !peak)
        return 2;
    struct share *shares = calloc(threads, sizeof *shares);
    if (!shares)
        return 1;
    for (size_t i = 0; i < threads; i++) {
        struct share *share = &shares[i];
        share->room = peak / threads / SMALLEST + 1;
        share->blocks = calloc(share->room, sizeof *share->blocks);
        share->sizes = calloc(share->room, sizeof *share->sizes);
        share->random = 0x9e3779b97f4a7c15 * (i + 1);
        if (!share->blocks || !share->sizes)
            return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    for (size_t cycle = 1; cycle <= cycles; cycle++) {
        in_threads(shares, threads, peak / threads, grow);
        mark("peak", cycle);
        struct share first = shares[0]; // each takes over its neighbour's blocks
        memmove(shares, shares + 1, (threads - 1) * sizeof *shares);
        shares[threads - 1] = first;
        in_threads(shares, threads, peak / KEPT / threads, shrink);
        mark("trough", cycle);
    }
    in_threads(shares, threads, 0, shrink);
    uint64_t calls = 0;
    for (size_t i = 0; i < threads; i++)
        calls += shares[i].calls;
    printf("arenascope report operations=%llu\n", (unsigned long long)calls);
    puts("done");
    while (getchar() != EOF)
        continue;
    return 0;
}
