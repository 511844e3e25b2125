// SPDX-License-Identifier: MIT
// The scenarios: who allocates and frees what.
#define _GNU_SOURCE
#include "churn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static uint64_t roll(struct worker *w) // splitmix64
{
    uint64_t z = w->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

// 1 byte to 2^log2 bytes, as many in each octave. Most slots hold blocks to 8 KiB, one in 32 any size at all: else the
// big ones alone would fill the memory.
static size_t some_size(struct worker *w, const struct slot *s)
{
    unsigned log2 = (s - slots) % 32 == 0 || option.biggest_log2 < 13 ? option.biggest_log2 : 13;
    size_t low = (size_t)1 << (roll(w) % log2);
    return low + roll(w) % low + (roll(w) % 64 == 0); // and 2^log2 itself
}

static void fill(struct worker *w, struct slot *s, size_t size)
{
    void *block = NULL;
    size_t alignment = (size_t)16 << (roll(w) % (strcmp(option.scenario, "aligned") == 0 ? 17 : 13));
    unsigned kind = (unsigned)(roll(w) % 16);
    if (strcmp(option.scenario, "aligned") == 0)
        kind %= 4;
    if (kind == 0)
        block = aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
    else if (kind == 1) {
        if (posix_memalign(&block, alignment, size) != 0)
            block = NULL;
    } else if (kind < 5)
        block = calloc(1, size);
    else
        block = malloc(size);
    if (!block)
        die("out of memory");
    // Some blocks are written through, some only begun: the rest of their pages may stay untouched.
    memset(block, 0x5a, roll(w) % 2 ? size : 1);
    s->block = block;
    s->size = size;
}

static void empty(struct slot *s)
{
    free(s->block);
    s->block = NULL;
}

static void step(struct worker *w, unsigned fill_percent)
{
    struct slot *s = &slots[roll(w) % option.slots];
    while (atomic_flag_test_and_set_explicit(&s->busy, memory_order_acquire))
        s = &slots[roll(w) % option.slots];
    if (!s->block) {
        if (roll(w) % 100 < fill_percent)
            fill(w, s, some_size(w, s));
    } else if (roll(w) % 5 == 0) {
        size_t size = some_size(w, s);
        s->block = realloc(s->block, size);
        if (!s->block)
            die("out of memory");
        s->block[size - 1] = 0x5a;
        s->size = size;
    } else if (roll(w) % 100 >= fill_percent / 2)
        empty(s);
    atomic_flag_clear_explicit(&s->busy, memory_order_release);
}

void churn(struct worker *w, unsigned operations)
{
    for (unsigned i = 0; i < operations; i++)
        step(w, 90);
}

// Everything at once, then next to nothing, as a server after its busiest hour.
static void burst(struct worker *w, unsigned operations)
{
    for (unsigned i = 0; i < operations; i++)
        step(w, 100);
    for (unsigned i = 0; i < 4 * operations; i++)
        step(w, 5);
}

// Allocates about 50 MiB in small blocks, linked through themselves, and frees all of it from the first on: the tcache then
// takes blocks at the bottom, and all that lies above them merges into the top.
static void fill_and_free_all(struct worker *w)
{
    struct link {
        struct link *next;
    } *first = NULL, **last = &first;
    for (size_t total = 0; total < (size_t)50 << 20;) {
        size_t size = 64 + roll(w) % 2000;
        struct link *block = malloc(size);
        if (!block)
            die("out of memory");
        memset(block, 0x5a, size);
        block->next = NULL;
        *last = block;
        last = &block->next;
        total += size;
    }
    while (first) {
        struct link *next = first->next;
        free(first);
        first = next;
    }
}

// Frees blocks into tcaches and fastbins that are known to be empty, so that where each went is known: per size, the first
// into the tcache, up to its count; those beyond into a fastbin where there is one. From the largest size down, since the
// free of a chunk that grows to 64 KiB by merging empties all fastbins.
static void fill_caches(void)
{
    static const size_t sizes[] = {1032, 1000, 200, 136, 120, 104, 40, 24};
    enum { KINDS = sizeof sizes / sizeof *sizes, EACH = 24 };
    void *blocks[KINDS][EACH];
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < EACH; i++)
            blocks[kind][i] = malloc(sizes[kind]);
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < EACH; i++) {
            freed[atomic_fetch_add(&freed_count, 1)] = (struct freed){blocks[kind][i], sizes[kind], i};
            free(blocks[kind][i]);
        }
}

static void foreign_sbrk(struct worker *w, unsigned operations)
{
    for (unsigned i = 0; i < operations; i++) {
        if (i % 500 == 0)
            sbrk((intptr_t)(1 + roll(w) % 20000)); // not even aligned
        step(w, 90);
    }
}

void block_brk(void)
{
    long page = sysconf(_SC_PAGESIZE);
    uintptr_t end = ((uintptr_t)sbrk(0) + (uintptr_t)page - 1) & ~((uintptr_t)page - 1);
    if (mmap((void *)end, (size_t)page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) !=
        (void *)end)
        die("brk cannot be blocked");
}

void work(struct worker *w, unsigned operations, bool second_half)
{
    if (strcmp(option.scenario, "burst") == 0)
        burst(w, operations);
    else if (strcmp(option.scenario, "withheld") == 0) {
        if (second_half)
            fill_and_free_all(w);
    } else if (strcmp(option.scenario, "caches") == 0) {
        if (second_half)
            fill_caches();
    } else if (strcmp(option.scenario, "foreign-sbrk") == 0)
        foreign_sbrk(w, operations);
    else
        churn(w, operations);
}
