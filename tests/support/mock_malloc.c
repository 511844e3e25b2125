// SPDX-License-Identifier: MIT
// malloc's structures as glibc writes them (malloc.c, arena.c). The numbers that no layout has are written out here once more on
// purpose: a test that took them from the code under test would follow it into its faults.
#include "support/mock.h"

enum {
    PREV_INUSE = 1,
    IS_MMAPPED = 2,
    NON_MAIN_ARENA = 4,
    FLAGS = 7,
    NONCONTIGUOUS = 2,
    LEAST = 32,
    LEAST_LARGE = 1024,
    BINS = 127,
    UNSORTED = 1,
    STATE_AT = 0x100, // in libc's data
    PAR_AT = 0x2000,
    TCACHE_SMALL_BINS = 64,
    TCACHE_SMALL_LARGEST = 1040,
    TLS_AT = 0x8000, // the thread pointer, in its mapping
};
static const uint64_t KEY = UINT64_C(0x5eed5eed5eed5eed); // tcache_key of 2.34 and later

struct as_libc *mock_libc_at(struct mock *m, uint32_t libc)
{
    CHECK(libc < m->malloc.libcs.count);
    return &m->malloc.libcs.items[libc];
}

static const struct as_state_layout *state_of(struct mock_arena *a)
{
    return &mock_libc_at(a->m, a->libc)->layout.state;
}

uint64_t mock_mp(struct mock *m, uint32_t libc, int32_t offset)
{
    CHECK(offset != AS_NONE);
    return mock_libc_at(m, libc)->mp + (uint64_t)offset;
}

// malloc_init_state.
static void init_state(struct mock *m, uint32_t libc, uint64_t state, bool main)
{
    const struct as_state_layout *at = &mock_libc_at(m, libc)->layout.state;
    uint64_t bins = state + (uint64_t)at->bins;
    for (uint64_t i = 0; i < BINS; i++) {
        mock_poke(m, bins + 16 * i, bins + 16 * i - 16);
        mock_poke(m, bins + 16 * i + 8, bins + 16 * i - 16);
    }
    mock_poke32(m, state + (uint64_t)at->flags, main ? 0 : NONCONTIGUOUS);
    mock_poke(m, state + (uint64_t)at->top, bins - 16);
    if (at->attached_threads != AS_NONE)
        mock_poke(m, state + (uint64_t)at->attached_threads, 1);
}

uint32_t mock_libc(struct mock *m, const char *release)
{
    uint64_t data = m->next_libc;
    m->next_libc += 0x100000;
    mock_map(m, data, MOCK_GRANULE, "/lib/libc.so.6");
    struct as_libc *libc = as_vec_add(&m->malloc.libcs, NULL);
    CHECK(libc);
    *libc = (struct as_libc){
        .layout = *as_layout_row((unsigned)__builtin_ctz(as_layout_rows_of_version(release))),
        .source = AS_LAYOUT_DWARF,
        .proven = true,
        .started = true,
        .path = m->target.mappings.items[as_target_mapping_from(&m->target, data)].path,
        .main_arena = data + STATE_AT,
        .mp = data + PAR_AT,
        .tls_tcache = AS_UNKNOWN,
        .tls_thread_arena = AS_UNKNOWN,
    };
    snprintf(libc->version, sizeof libc->version, "%s", release);
    uint32_t index = (uint32_t)m->malloc.libcs.count - 1;
    const struct as_par_layout *par = &libc->layout.par;
    init_state(m, index, libc->main_arena, true);
    mock_poke(m, libc->main_arena + (uint64_t)libc->layout.state.next, libc->main_arena);
    mock_poke(m, libc->mp + (uint64_t)par->trim_threshold, 128 * 1024);
    mock_poke(m, libc->mp + (uint64_t)par->top_pad, 128 * 1024);
    mock_poke(m, libc->mp + (uint64_t)par->mmap_threshold, 128 * 1024);
    mock_poke(m, libc->mp + (uint64_t)par->arena_test, 8);
    if (par->tcache_bins != AS_NONE) {
        mock_poke(m, libc->mp + (uint64_t)par->tcache_bins, TCACHE_SMALL_BINS);
        mock_poke(m, libc->mp + (uint64_t)par->tcache_max_bytes, TCACHE_SMALL_LARGEST);
        mock_poke(m, libc->mp + (uint64_t)par->tcache_count, 7);
    }
    return index;
}

static void write_system_mem(struct mock_arena *a)
{
    uint64_t bytes = a->in_heaps + (a->end - a->heap);
    mock_poke(a->m, a->address + (uint64_t)state_of(a)->system_mem, bytes);
    mock_poke(a->m, a->address + (uint64_t)state_of(a)->max_system_mem, bytes);
}

struct mock_arena mock_main(struct mock *m, uint32_t libc, uint64_t start, uint64_t length)
{
    struct mock_arena a = {.m = m, .libc = libc, .address = mock_libc_at(m, libc)->main_arena, .main = true};
    if (!as_target_mapping_at(&m->target, start))
        mock_map(m, start, length, "[heap]");
    a.heap = a.at = start;
    a.end = start + length;
    mock_poke(m, mock_mp(m, libc, mock_libc_at(m, libc)->layout.par.sbrk_base), start);
    return a;
}

// heap_info, as new_heap leaves it.
static void write_heap_info(struct mock_arena *a, uint64_t previous)
{
    const struct as_heap_layout *layout = &mock_libc_at(a->m, a->libc)->layout.heap;
    uint64_t length = a->end - a->heap;
    mock_poke(a->m, a->heap, a->address);
    mock_poke(a->m, a->heap + 8, previous);
    mock_poke(a->m, a->heap + 16, length);
    mock_poke(a->m, a->heap + 24, length);
    if (layout->heap_pagesize != AS_NONE)
        mock_poke(a->m, a->heap + (uint64_t)layout->heap_pagesize, a->m->target.page_size);
}

struct mock_arena mock_arena(struct mock *m, uint32_t libc, uint64_t start, uint64_t length)
{
    const struct as_layout *layout = &mock_libc_at(m, libc)->layout;
    struct mock_arena a = {
        .m = m,
        .libc = libc,
        .address = start + (uint64_t)layout->heap.heap_info_size,
        .heap = start,
        .end = start + length,
    };
    CHECK(start % m->heap_bytes == 0 && length <= m->heap_bytes);
    mock_map(m, start, length, "");
    write_heap_info(&a, 0);
    init_state(m, libc, a.address, false);
    uint64_t main_next = mock_libc_at(m, libc)->main_arena + (uint64_t)layout->state.next;
    mock_poke(m, a.address + (uint64_t)layout->state.next, mock_peek(m, main_next));
    mock_poke(m, main_next, a.address);
    a.at = (a.address + (uint64_t)layout->state.size + 15) & ~UINT64_C(15);
    return a;
}

// sysmalloc, where a thread arena needs another heap.
static void next_thread_heap(struct mock_arena *a, uint64_t start, uint64_t length)
{
    CHECK(a->end - a->at == MOCK_FENCES && start % a->m->heap_bytes == 0);
    mock_poke(a->m, a->at + 8, 16 | PREV_INUSE);
    mock_poke(a->m, a->at + 16, 16);
    mock_poke(a->m, a->at + 24, 0 | PREV_INUSE);
    uint64_t previous = a->heap;
    a->in_heaps += a->end - a->heap;
    mock_map(a->m, start, length, "");
    a->heap = start;
    a->end = start + length;
    write_heap_info(a, previous);
    a->at = start + (uint64_t)mock_libc_at(a->m, a->libc)->layout.heap.heap_info_size;
}

void mock_next_heap(struct mock_arena *a, uint64_t start, uint64_t length)
{
    if (!a->main) {
        next_thread_heap(a, start, length);
        return;
    }
    // Where somebody else has called sbrk the arena goes on behind it and counts it, too; else a map has to do.
    bool foreign = as_target_mapping_at(&a->m->target, start) != NULL;
    a->end = a->at + MOCK_FENCES;
    mock_poke(a->m, a->at + 8, 16 | PREV_INUSE);
    mock_poke(a->m, a->at + 24, 16 | PREV_INUSE);
    a->in_heaps += foreign ? start - a->heap : a->end - a->heap;
    if (!foreign) {
        mock_map(a->m, start, length, "");
        mock_poke32(a->m, a->address + (uint64_t)state_of(a)->flags, NONCONTIGUOUS);
    }
    a->heap = a->at = start;
    a->end = start + length;
}

void mock_top(struct mock_arena *a)
{
    mock_poke(a->m, a->at + 8, (a->end - a->at) | PREV_INUSE);
    mock_poke(a->m, a->address + (uint64_t)state_of(a)->top, a->at);
    write_system_mem(a);
}

uint64_t mock_chunk(struct mock_arena *a, uint64_t size)
{
    uint64_t chunk = a->at;
    CHECK(size >= LEAST && size % 16 == 0 && size <= a->end - a->at);
    mock_poke(a->m, chunk + 8, size | PREV_INUSE | (a->main ? 0 : NON_MAIN_ARENA));
    a->at += size;
    return chunk;
}

static uint64_t size_of(const struct mock *m, uint64_t chunk)
{
    return mock_peek(m, chunk + 8) & ~(uint64_t)FLAGS;
}

static uint64_t head_of(struct mock_arena *a, uint64_t bin)
{
    return a->address + (uint64_t)state_of(a)->bins + (bin - 1) * 16 - 16;
}

static void link_in(struct mock *m, uint64_t chunk, uint64_t back, uint64_t forward)
{
    mock_poke(m, chunk + 16, forward);
    mock_poke(m, chunk + 24, back);
    mock_poke(m, back + 16, chunk);
    mock_poke(m, forward + 24, chunk);
}

// Makes it free for its neighbours.
static void set_free(struct mock_arena *a, uint64_t chunk)
{
    uint64_t size = size_of(a->m, chunk);
    uint64_t next = chunk + size;
    uint64_t head = mock_peek(a->m, chunk + 8);
    CHECK(head & PREV_INUSE); // or they would have been merged
    mock_poke(a->m, chunk + 8, head & ~(uint64_t)NON_MAIN_ARENA);
    mock_poke(a->m, next, size);
    mock_poke(a->m, next + 8, mock_peek(a->m, next + 8) & ~(uint64_t)PREV_INUSE);
    if (size >= LEAST_LARGE) {
        mock_poke(a->m, chunk + 32, 0);
        mock_poke(a->m, chunk + 40, 0);
    }
}

void mock_unsorted(struct mock_arena *a, uint64_t chunk)
{
    uint64_t head = head_of(a, UNSORTED);
    set_free(a, chunk);
    link_in(a->m, chunk, head, mock_peek(a->m, head + 16));
}

// largebin_index_64.
static uint64_t large_bin(uint64_t size)
{
    return size >> 6 <= 48    ? 48 + (size >> 6)
           : size >> 9 <= 20  ? 91 + (size >> 9)
           : size >> 12 <= 10 ? 110 + (size >> 12)
           : size >> 15 <= 4  ? 119 + (size >> 15)
           : size >> 18 <= 2  ? 124 + (size >> 18)
                              : 126;
}

// Largest first; of chunks of one size only the first is in the ring of sizes, and a new one becomes the second.
static void sort_in(struct mock_arena *a, uint64_t chunk, uint64_t size)
{
    struct mock *m = a->m;
    uint64_t head = head_of(a, large_bin(size));
    uint64_t at = mock_peek(m, head + 16);
    uint64_t larger = 0; // the first chunk of the next larger size
    for (; at != head && size_of(m, at) > size; at = mock_peek(m, at + 16))
        larger = mock_peek(m, at + 32) ? at : larger;
    if (at != head && size_of(m, at) == size) {
        link_in(m, chunk, at, mock_peek(m, at + 16));
        return;
    }
    uint64_t first = mock_peek(m, head + 16);
    uint64_t smaller = at != head ? at : first; // a ring: the smallest leads to the largest
    if (first == head) {
        larger = smaller = chunk;
    } else if (larger == 0) {
        larger = mock_peek(m, first + 40);
    }
    link_in(m, chunk, mock_peek(m, at + 24), at);
    mock_poke(m, chunk + 32, smaller);
    mock_poke(m, chunk + 40, larger);
    mock_poke(m, larger + 32, chunk);
    mock_poke(m, smaller + 40, chunk);
}

void mock_bin(struct mock_arena *a, uint64_t chunk)
{
    uint64_t size = size_of(a->m, chunk);
    set_free(a, chunk);
    if (size >= LEAST_LARGE) {
        sort_in(a, chunk, size);
        return;
    }
    uint64_t head = head_of(a, size / 16);
    link_in(a->m, chunk, head, mock_peek(a->m, head + 16));
}

uint64_t mock_link(struct mock *m, uint32_t libc, uint64_t position, uint64_t to)
{
    return mock_libc_at(m, libc)->layout.heap.safe_linking ? (position >> 12) ^ to : to;
}

void mock_fast(struct mock_arena *a, uint64_t chunk)
{
    uint64_t bin = size_of(a->m, chunk) / 16 - 2;
    CHECK(bin < (uint64_t)state_of(a)->fastbin_count);
    uint64_t list = a->address + (uint64_t)state_of(a)->fastbins + 8 * bin;
    mock_poke(a->m, chunk + 16, mock_link(a->m, a->libc, chunk + 16, mock_peek(a->m, list)));
    mock_poke(a->m, list, chunk);
}

uint64_t mock_tcache(struct mock_arena *a)
{
    const struct as_libc *libc = mock_libc_at(a->m, a->libc);
    const struct as_heap_layout *layout = &libc->layout.heap;
    CHECK(layout->tcache_size > 0);
    uint64_t tcache = mock_chunk(a, ((uint64_t)layout->tcache_size + 8 + 15) & ~UINT64_C(15)) + 16;
    uint16_t most = (uint16_t)mock_peek(a->m, libc->mp + (uint64_t)libc->layout.par.tcache_count);
    for (uint64_t bin = 0; layout->tcache_counts_down && bin < (uint64_t)layout->tcache_bins; bin++)
        mock_poke16(a->m, tcache + 2 * bin, most);
    return tcache;
}

static uint64_t tcache_bin(uint64_t size)
{
    if (size <= TCACHE_SMALL_LARGEST)
        return size / 16 - 2;
    return TCACHE_SMALL_BINS + (uint64_t)__builtin_clz(TCACHE_SMALL_LARGEST) - (uint64_t)__builtin_clz((unsigned)size);
}

void mock_cache(struct mock *m, uint32_t libc, uint64_t tcache, uint64_t chunk)
{
    const struct as_heap_layout *layout = &mock_libc_at(m, libc)->layout.heap;
    uint64_t bin = tcache_bin(size_of(m, chunk));
    CHECK(bin < (uint64_t)layout->tcache_bins);
    uint64_t list = tcache + (uint64_t)layout->tcache_entries + 8 * bin;
    uint64_t count = tcache + (uint64_t)layout->tcache_count_size * bin;
    uint64_t words = mock_peek(m, count);
    uint64_t mask = layout->tcache_count_size == 1 ? 0xff : 0xffff;
    uint64_t number = (words + (layout->tcache_counts_down ? mask : 1)) & mask; // one slot less, or one chunk more
    mock_poke(m, count, (words & ~mask) | number);
    mock_poke(m, chunk + 16, mock_link(m, libc, chunk + 16, mock_peek(m, list)));
    if (layout->tcache_count_size == 2) // 2.29 has a key, but its layout is that of 2.28
        mock_poke(m, chunk + 24, layout->safe_linking ? KEY : tcache);
    mock_poke(m, list, chunk + 16);
}

static void count_mmapped(struct mock *m, uint32_t libc, uint64_t length)
{
    const struct as_par_layout *par = &mock_libc_at(m, libc)->layout.par;
    uint64_t count = mock_mp(m, libc, par->n_mmaps);
    uint64_t bytes = mock_mp(m, libc, par->mmapped_mem);
    mock_poke32(m, count, (uint32_t)mock_peek(m, count) + 1);
    mock_poke(m, bytes, mock_peek(m, bytes) + length);
}

void mock_mmapped(struct mock *m, uint32_t libc, uint64_t start, uint64_t length)
{
    uint64_t extra = (uint64_t)mock_libc_at(m, libc)->layout.heap.mmap_extra;
    mock_poke(m, start, 0);
    mock_poke(m, start + 8, (length - extra) | IS_MMAPPED);
    count_mmapped(m, libc, length);
}

void mock_mmapped_aligned(struct mock *m, uint32_t libc, uint64_t start, uint64_t length, uint64_t lead)
{
    uint64_t extra = (uint64_t)mock_libc_at(m, libc)->layout.heap.mmap_extra;
    mock_mmapped(m, libc, start, length); // _int_memalign leaves the header that the map was made with
    mock_poke(m, start + lead, lead);
    mock_poke(m, start + lead + 8, (length - lead - extra) | IS_MMAPPED);
}

static uint64_t tls_address(uint64_t pointer, int distance)
{
#ifdef __aarch64__ // above the thread pointer there (TLS variant I)
    return pointer + (uint64_t)distance;
#else
    return pointer - (uint64_t)distance;
#endif
}

uint64_t mock_tls(const struct mock *m, size_t thread, int distance)
{
    return tls_address(m->target.threads.items[thread].tp, distance);
}

size_t mock_thread(struct mock *m, pid_t tid, uint64_t tcache, uint64_t arena)
{
    uint64_t stack = m->next_stack;
    m->next_stack += 0x100000;
    mock_map(m, stack, MOCK_GRANULE, "");
    struct as_thread *thread = as_vec_add(&m->target.threads, NULL);
    CHECK(thread);
    *thread = (struct as_thread){.tid = tid, .name = "mock", .tp = stack + TLS_AT, .sp = stack + 0x1000};
    mock_poke(m, tls_address(thread->tp, MOCK_TLS_TCACHE), tcache);
    mock_poke(m, tls_address(thread->tp, MOCK_TLS_ARENA), arena);
    return m->target.threads.count - 1;
}
