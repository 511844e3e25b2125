// SPDX-License-Identifier: MIT
// The walk within one process: `inplace MEGABYTES MEAN` makes a heap and prints, round by round and in nanoseconds, a bare
// loop over its chunk headers with software prefetch (the limit), our walk of the same heap, the following of its fastbins'
// lists, and all that comes before a walk (arenas, threads, the tcaches' lists, mmapped chunks); then the numbers of chunks and
// of those on lists.
#include "base/clock.h"
#include "libc/libc.h"
#include "malloc/find.h"
#include "malloc/walk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, AHEAD = 8192 };
// libdw allocates, in the very heap that we walk.
enum { NO_DWARF = AS_LAYOUT_ANY & ~(1u << AS_LAYOUT_DWARF) };

static void fill(size_t bytes, size_t mean)
{
    uint64_t state = 88172645463325252;
    void **drop = NULL;
    for (size_t done = 0; done < bytes;) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        size_t size = 16 + (state >> 32) % (mean * 2 - 16);
        void **block = malloc(size);
        if (!block)
            abort();
        memset(block, 1, size);
        if (state % 5 < 2) {
            *block = drop;
            drop = (void **)block;
        }
        done += size + 8;
    }
    while (drop) {
        void **next = *drop;
        free((void *)drop);
        drop = next;
    }
}

// The least a walk can do: from size to size, counting those whose successor says that they are free.
static uint64_t bare(const struct as_heap *heap, uint64_t top, uint64_t *chunks)
{
    uint64_t free_bytes = 0;
    uint64_t previous = 0;
    for (uint64_t at = heap->first_chunk; at < top;) {
        const uint64_t *header = (const uint64_t *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
        __builtin_prefetch((const char *)header + AHEAD);
        uint64_t size = header[1];
        free_bytes += size & AS_PREV_INUSE ? 0 : previous;
        previous = size & ~(uint64_t)AS_FLAG_BITS;
        at += previous;
        ++*chunks;
    }
    return free_bytes;
}

struct counter {
    struct as_chunk_sink sink;
    uint64_t chunks, free_bytes;
};

static bool count(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t n)
{
    struct counter *c = (struct counter *)sink;
    c->chunks += n;
    for (size_t i = 0; i < n; i++)
        c->free_bytes += as_chunk_class_of(batch[i]) == AS_CHUNK_BINNED ? as_chunk_size(batch[i]) : 0;
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: inplace MEGABYTES MEAN\n");
        return 2;
    }
    static char output[4096];
    setvbuf(stdout, output, _IOFBF, sizeof output); // stdio allocates otherwise, and so empties the fastbins
    fill(strtoul(argv[1], NULL, 10) * 1000000, strtoul(argv[2], NULL, 10));
    struct as_error err;
    struct as_target *t = as_target_open_self(true, &err);
    struct as_malloc m = {0};
    struct as_heaps h;
    struct as_window w;
    if (!t || !as_malloc_find(t, NO_DWARF, &m, &err) || !as_heaps_find(t, &m, NULL, &h, &err) ||
        !as_window_open(&w, t, &err)) {
        fprintf(stderr, "inplace: %s\n", err.text);
        return 1;
    }
    uint32_t main_heap = 0;
    while (main_heap < h.heaps.count && !(h.heaps.items[main_heap].arena == 0 && h.heaps.items[main_heap].has_top))
        main_heap++;
    if (main_heap == h.heaps.count)
        return 1;
    uint64_t chunks = 0;
    uint64_t sums[2] = {0};
    struct as_fastbin_candidates candidates = {0};
    as_address_vec members = {0};
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t before = as_clock_ns(CLOCK_MONOTONIC);
        sums[0] += bare(&h.heaps.items[main_heap], h.arenas.items[0].top, &chunks);
        uint64_t between = as_clock_ns(CLOCK_MONOTONIC);
        struct counter c = {.sink = {.chunks = count}};
        uint64_t torn = 0;
        h.arenas.items[0].bin_sums = (struct as_bin_sums){0};
        as_fastbin_candidates_begin(&candidates, &h, 0);
        if (!as_walk_heap(&h, main_heap, &w, &c.sink, &candidates, &torn) || torn != 0)
            return 1;
        uint64_t walked = as_clock_ns(CLOCK_MONOTONIC);
        members.count = 0;
        if (!as_fastbin_members_resolve(&h.arenas.items[0], &candidates, &members, NULL, NULL, &err))
            return 1;
        uint64_t followed = as_clock_ns(CLOCK_MONOTONIC);
        struct as_heaps again;
        if (!as_heaps_find(t, &m, NULL, &again, &err))
            return 1;
        uint64_t found = as_clock_ns(CLOCK_MONOTONIC);
        sums[1] += c.free_bytes;
        if (round > 0) // the first one also pays for the memory that the others use again
            printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %zu\n", between - before,
                   walked - between, followed - walked, found - followed, c.chunks, members.count + again.cached.count);
        as_heaps_free(&again);
    }
    if (sums[0] != sums[1])
        fprintf(stderr, "inplace: the two loops saw different heaps: %" PRIu64 ", %" PRIu64 "\n", sums[0], sums[1]);
    as_fastbin_candidates_free(&candidates);
    as_vec_free(&members);
    as_window_close(&w);
    as_heaps_free(&h);
    as_malloc_free(&m);
    as_target_close(t);
    return sums[0] != sums[1];
}
