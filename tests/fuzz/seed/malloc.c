// SPDX-License-Identifier: MIT
// A small library with what the layout finder searches for in a libc, down to this file's name (which debug information has),
// for fuzz_elf to begin with: a hundredth of the size.
#include <stddef.h>
#include <stdint.h>

struct malloc_state {
    int mutex;
    int flags;
    int have_fastchunks;
    void *fastbinsY[10];
    void *top;
    void *last_remainder;
    void *bins[254];
    unsigned binmap[4];
    struct malloc_state *next;
    struct malloc_state *next_free;
    size_t attached_threads;
    size_t system_mem;
    size_t max_system_mem;
};

struct malloc_par {
    unsigned long trim_threshold;
    size_t top_pad, mmap_threshold, arena_test, arena_max;
    size_t thp_pagesize, hp_pagesize;
    int hp_flags;
    int n_mmaps, n_mmaps_max, max_n_mmaps, no_dyn_threshold;
    size_t mmapped_mem, max_mmapped_mem;
    char *sbrk_base;
    size_t tcache_bins, tcache_max_bytes, tcache_count, tcache_unsorted_limit;
};

typedef struct _heap_info {
    struct malloc_state *ar_ptr;
    struct _heap_info *prev;
    size_t size, mprotect_size, pagesize;
    char pad[8];
} heap_info;

struct tcache_perthread_struct {
    uint16_t counts[64];
    void *entries[64];
};

#define KEPT __attribute__((used))

static struct malloc_state KEPT main_arena = {.next = &main_arena, .attached_threads = 1};
static struct malloc_par KEPT mp_ = {.top_pad = 131072,
                                     .n_mmaps_max = 65536,
                                     .mmap_threshold = 131072,
                                     .trim_threshold = 131072,
                                     .arena_test = 8,
                                     .tcache_count = 7,
                                     .tcache_bins = 64,
                                     .tcache_max_bytes = 1032};
static __thread struct tcache_perthread_struct *tcache KEPT;
static __thread struct malloc_state *thread_arena;

const char banner[] = "GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n";
const char messages[] = "free(): invalid pointer\0free(): unaligned chunk detected in tcache 2";
heap_info *KEPT any_heap; // so that the debug information has the type

int malloc_trim(size_t pad)
{
    struct malloc_state *arena = &main_arena;
    thread_arena = arena;
    do {
        arena->system_mem += pad + (tcache != 0);
        arena = arena->next;
    } while (arena != &main_arena);
    return (int)mp_.arena_max;
}
