// SPDX-License-Identifier: MIT
// What a trim costs those who go on using malloc meanwhile: fills the heap, frees nearly all of it in small pieces, and lets
// threads allocate and free, each call timed while another thread trims.
// Usage: trim MEGABYTES THREADS none|malloc_trim|plain|deep HOLD_NS; one line of JSON on stdout.
#include "trim/trim.h"

#include "base/clock.h"

#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_THREADS = 64,
    KEEP_EVERY = 64, // of the pieces one in so many stays in use, and keeps the others from merging into the top
    LIVE = 512,      // blocks of each thread in the measured part
    BURST = 64,      // steps between two naps: the threads together leave some of the processors' time over
    NAP_NS = 500000,
    STEPS = 16, // of the histogram, to a doubling
    BUCKETS = 48 * STEPS,
};

struct histogram {
    uint64_t count[BUCKETS], worst;
};

struct worker {
    pthread_t thread;
    uint64_t random;
    struct histogram during;
    void *live[LIVE];
};

static struct worker workers[MOST_THREADS];
static unsigned thread_count;
static uint64_t bytes_each;
static pthread_barrier_t filled;
static atomic_int phase; // 0: alone, 1: a trim goes on, 2: end

static uint64_t roll(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    return w->random ^= w->random << 17;
}

static unsigned bucket_of(uint64_t ns)
{
    if (ns < STEPS)
        return (unsigned)ns;
    unsigned log2 = 63 - (unsigned)__builtin_clzll(ns);
    unsigned bucket = (log2 - 3) * STEPS + (unsigned)(ns >> (log2 - 4)) % STEPS;
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static uint64_t ns_of(unsigned bucket)
{
    if (bucket < STEPS)
        return bucket;
    return (uint64_t)(STEPS + bucket % STEPS + 1) << (bucket / STEPS - 1);
}

static void note(struct histogram *h, uint64_t ns)
{
    h->count[bucket_of(ns)]++;
    h->worst = ns > h->worst ? ns : h->worst;
}

// Linked through themselves, so that nothing but the pieces takes memory. No fastbin sizes: malloc_trim would merge these.
static void fill(struct worker *w)
{
    struct piece {
        struct piece *next;
    } *first = NULL, **last = &first;
    for (uint64_t total = 0; total < bytes_each;) {
        size_t size = 200 + roll(w) % 1800;
        struct piece *p = malloc(size);
        if (!p)
            abort();
        memset(p, 0x5a, size);
        p->next = NULL;
        *last = p;
        last = &p->next;
        total += size;
    }
    unsigned n = 0;
    while (first) {
        struct piece *next = first->next;
        if (++n % KEEP_EVERY != 0)
            free(first);
        first = next;
    }
}

static void step(struct worker *w)
{
    void **live = &w->live[roll(w) % LIVE];
    // Half of the sizes are larger than a tcache takes: these calls take the arena's lock.
    size_t size = roll(w) % 2 ? 16 + roll(w) % 1000 : 1100 + roll(w) % 8000;
    int during = atomic_load_explicit(&phase, memory_order_relaxed);
    uint64_t t0 = as_clock_ns(CLOCK_MONOTONIC);
    void *old = *live;
    free(old);
    uint64_t t1 = as_clock_ns(CLOCK_MONOTONIC);
    *live = malloc(size);
    uint64_t t2 = as_clock_ns(CLOCK_MONOTONIC);
    if (!*live)
        abort();
    memset(*live, 1, size);
    // A call belongs to the trim if that began before the call ended.
    if (during != 1 && atomic_load_explicit(&phase, memory_order_relaxed) != 1)
        return;
    if (old)
        note(&w->during, t1 - t0);
    note(&w->during, t2 - t1);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    fill(w);
    pthread_barrier_wait(&filled);
    while (atomic_load_explicit(&phase, memory_order_relaxed) != 2) {
        for (unsigned i = 0; i < BURST; i++)
            step(w);
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
    }
    return NULL;
}

static uint64_t anonymous(void)
{
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    char line[256];
    unsigned long kb = 0;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "Anonymous: %lu", &kb) != 1)
        continue;
    if (f)
        fclose(f);
    return (uint64_t)kb << 10;
}

static uint64_t p99_99_ns(const struct histogram *h)
{
    uint64_t total = 0, below = 0;
    for (unsigned i = 0; i < BUCKETS; i++)
        total += h->count[i];
    unsigned i = 0;
    while (i < BUCKETS - 1 && (double)(below += h->count[i]) < 0.9999 * (double)total)
        i++;
    return ns_of(i);
}

static void merge(struct histogram *into, const struct histogram *h)
{
    for (unsigned i = 0; i < BUCKETS; i++)
        into->count[i] += h->count[i];
    into->worst = h->worst > into->worst ? h->worst : into->worst;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    thread_count = (unsigned)strtoul(argv[2], NULL, 10);
    const char *mode = argv[3];
    struct as_trim_request request = {.deep = strcmp(mode, "deep") == 0, .max_hold_ns = strtoull(argv[4], NULL, 10)};
    if (thread_count == 0 || thread_count > MOST_THREADS)
        return 2;
    bytes_each = strtoull(argv[1], NULL, 10) * 1000000 / thread_count;
    struct as_error err;
    struct as_malloc m;
    struct as_target *self = as_target_open_self(false, &err);
    if (!self || !as_malloc_find(self, AS_LAYOUT_ANY, &m, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    as_target_close(self);
    pthread_barrier_init(&filled, NULL, thread_count + 1);
    for (unsigned i = 0; i < thread_count; i++) {
        workers[i].random = 88172645463325252U + i;
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            return 1;
    }
    pthread_barrier_wait(&filled);
    sleep(2);
    uint64_t before = anonymous();
    struct as_trim_outcome out = {0};
    uint64_t cpu = as_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t began = as_clock_ns(CLOCK_MONOTONIC);
    phase = 1;
    bool ok = true;
    if (strcmp(mode, "none") == 0)
        sleep(2);
    else if (strcmp(mode, "malloc_trim") == 0)
        malloc_trim(0);
    else {
        self = as_target_open_self(false, &err);
        ok = self && as_trim_run(self, &m, &request, &out, &err);
        as_target_close(self);
    }
    uint64_t elapsed = as_clock_ns(CLOCK_MONOTONIC) - began;
    cpu = as_clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    phase = 2;
    uint64_t after = anonymous();
    static struct histogram during;
    for (unsigned i = 0; i < thread_count; i++) {
        pthread_join(workers[i].thread, NULL);
        merge(&during, &workers[i].during);
    }
    if (!ok) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    uint64_t hold = 0;
    for (size_t i = 0; i < out.arenas.count; i++)
        hold = out.arenas.items[i].longest_hold_ns > hold ? out.arenas.items[i].longest_hold_ns : hold;
    printf("{\"p99_99_ns\": %" PRIu64 ", \"worst_ns\": %" PRIu64 ", \"anonymous_before\": %" PRIu64
           ", \"anonymous_after\": %" PRIu64 ", \"elapsed_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64
           ", \"longest_hold_ns\": %" PRIu64 "}\n",
           p99_99_ns(&during), during.worst, before, after, elapsed, cpu, hold);
    as_trim_free(&out);
    as_malloc_free(&m);
    return 0;
}
