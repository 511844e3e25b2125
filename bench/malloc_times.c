// SPDX-License-Identifier: MIT
// How long each malloc takes: prints the median, the 99th and the 99.9th percentile and the mean, in nanoseconds. 4,096
// blocks of 16 to 1,024 bytes live, allocated from stacks of 8 to 40 frames. The clock's own time is in all figures.
#include "base/clock.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIVE = 4096, ROUNDS = 2000000, BUCKETS = 100000, DEPTHS = 32, LEAST = 8 };

static void *blocks[LIVE];
static uint32_t buckets[BUCKETS];
static uint64_t ticks;

static uint64_t now(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    uint64_t value;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(value));
    return value;
#endif
}

// NOLINTNEXTLINE(misc-no-recursion): no deeper than LEAST + DEPTHS
__attribute__((noinline)) static void *allocate(unsigned depth, size_t size)
{
    if (depth > 0) {
        void *volatile block = allocate(depth - 1, size); // volatile: no tail call
        return block;
    }
    uint64_t before = now();
    void *block = malloc(size);
    uint64_t took = now() - before;
    ticks += took;
    buckets[took < BUCKETS ? took : BUCKETS - 1]++;
    return block;
}

static unsigned long percentile(double share)
{
    double left = share * ROUNDS;
    unsigned long i = 0;
    for (; i < BUCKETS - 1 && left > buckets[i]; i++)
        left -= buckets[i];
    return i;
}

int main(void)
{
    uint64_t random = 1;
    uint64_t start_ns = as_clock_ns(CLOCK_MONOTONIC);
    uint64_t start = now();
    for (unsigned i = 0; i < ROUNDS; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        unsigned at = random >> 40 & (LIVE - 1);
        free(blocks[at]);
        blocks[at] = allocate(LEAST + (random >> 52 & (DEPTHS - 1)), 16 + (random >> 30 & 1023));
    }
    double tick = (double)(as_clock_ns(CLOCK_MONOTONIC) - start_ns) / (double)(now() - start);
    printf("%.1f %.1f %.1f %.1f\n", (double)percentile(0.5) * tick, (double)percentile(0.99) * tick,
           (double)percentile(0.999) * tick, (double)ticks / ROUNDS * tick);
    return 0;
}
