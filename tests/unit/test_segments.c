// SPDX-License-Identifier: MIT
// The heaps of thread arenas, and the first segment of the main arena: where they are, and what is said of damaged headers.
#include "support/found.h"

enum { PAGE = 4096, LENGTH = 0x20000, AR_PTR = 0, PREV = 8, SIZE = 16, MPROTECT_SIZE = 24 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t HEAPS[] = {UINT64_C(0x180008000000), UINT64_C(0x180000000000), UINT64_C(0x18000c000000)};

static void fill_heap(struct mock_arena *a)
{
    while (a->end - a->at > MOCK_FENCES + 1024)
        mock_chunk(a, 1024);
    mock_chunk(a, a->end - a->at - MOCK_FENCES);
}

// A libc with its main arena, and a thread arena of three heaps, whose addresses are in no order.
struct scene {
    struct mock *m;
    uint32_t libc;
    struct mock_arena main, thread;
    struct found *f;
};

static struct scene three_heaps(const char *release)
{
    struct scene s = {.m = mock_new(PAGE)};
    s.libc = mock_libc(s.m, release);
    s.main = mock_main(s.m, s.libc, MAIN, LENGTH);
    mock_chunk(&s.main, 64);
    mock_top(&s.main);
    s.thread = mock_arena(s.m, s.libc, HEAPS[0], LENGTH);
    for (int i = 1; i < 3; i++) {
        fill_heap(&s.thread);
        mock_next_heap(&s.thread, HEAPS[i], LENGTH);
    }
    mock_chunk(&s.thread, 4096);
    mock_top(&s.thread);
    return s;
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

static void test_order(const char *release)
{
    struct scene s = three_heaps(release);
    mock_poke(s.m, HEAPS[1] + MPROTECT_SIZE, LENGTH + 0x3000);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    const struct as_heaps *h = &s.f->heaps;
    CHECK_EQUAL(h->heaps.count, 4);
    int32_t header = mock_libc_at(s.m, s.libc)->layout.heap.heap_info_size;
    for (size_t i = 0; i < 3; i++) {
        const struct as_heap *heap = &h->heaps.items[1 + i];
        CHECK_EQUAL(heap->start, HEAPS[i]);
        CHECK_EQUAL(heap->end, HEAPS[i] + LENGTH);
        CHECK_EQUAL(heap->protected_end, HEAPS[i] + LENGTH + (i == 1 ? 0x3000 : 0));
        CHECK(heap->kind == AS_HEAP_THREAD && heap->arena == 1 && heap->has_top == (i == 2));
        CHECK_EQUAL(heap->malloc_state, i == 0 ? s.thread.address : 0);
        if (i > 0)
            CHECK_EQUAL(heap->first_chunk, HEAPS[i] + (uint64_t)header);
    }
    CHECK(found_class(s.f, h->heaps.items[1].first_chunk) == AS_CHUNK_IN_USE);
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_UNKNOWN), 0);
    CHECK(!h->incomplete);
    end(&s);
}

// One word of a heap_info is wrong: what lies behind it in the list is missing, and that is said.
static void test_header(size_t heap, uint64_t field, uint64_t value, const char *what, size_t heaps_left)
{
    struct scene s = three_heaps("2.36");
    mock_poke(s.m, HEAPS[heap] + field, value);
    s.f = found_heaps(s.m);
    CHECK(found_faults(s.f, what) == 1, "%s: %zu faults, the first: %s", what, s.f->heaps.faults.count,
          s.f->heaps.faults.count ? s.f->heaps.faults.items[0].what : "none");
    CHECK_EQUAL(s.f->heaps.heaps.count, 1 + heaps_left);
    CHECK(s.f->heaps.incomplete && s.f->heaps.heaps.items[0].start == MAIN);
    end(&s);
}

static void test_damaged_headers(void)
{
    const char alien[] = "does not belong to its arena";
    const char taken[] = "overlaps another heap";
    test_header(1, AR_PTR, MAIN, alien, 1);
    test_header(2, AR_PTR, MAIN, alien, 0);
    test_header(1, SIZE, (64 << 20) + 16, alien, 1);
    test_header(1, SIZE, LENGTH + 8, alien, 1);
    test_header(1, SIZE, 32, alien, 1); // less than heap_info, which has 48 bytes in 2.36
    test_header(1, SIZE, LENGTH + PAGE, taken, 1);
    test_header(0, SIZE, 2048, "smaller than its header", 2); // malloc_state is in this one
    test_header(1, PREV, HEAPS[2], taken, 2);
    test_header(1, PREV, HEAPS[1], taken, 2);
    test_header(1, PREV, HEAPS[0] + PAGE, "not aligned to HEAP_MAX_SIZE", 2);
    test_header(1, PREV, UINT64_C(0x700000000000), "cannot be read", 2);
    test_header(1, PREV, 0, "do not add up to its system_mem", 2);
}

// A heap whose header is as long as it may be at most, and as short.
static void test_exact_header(void)
{
    struct scene s = three_heaps("2.36");
    uint64_t first = s.thread.address + (uint64_t)mock_libc_at(s.m, s.libc)->layout.state.size;
    uint64_t header = ((first + 15) & ~UINT64_C(15)) - HEAPS[0];
    uint64_t system_mem = s.thread.address + (uint64_t)mock_libc_at(s.m, s.libc)->layout.state.system_mem;
    mock_poke(s.m, HEAPS[0] + SIZE, header);
    mock_poke(s.m, HEAPS[1] + SIZE, 48);
    mock_poke(s.m, system_mem, header + 48 + LENGTH);
    s.f = found_heaps(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.heaps.count, 4);
    end(&s);
}

static void test_top(int64_t moved, bool ends_with_heap)
{
    struct scene s = three_heaps("2.36");
    uint64_t top = s.thread.at + (uint64_t)moved;
    uint64_t pointer = s.thread.address + (uint64_t)mock_libc_at(s.m, s.libc)->layout.state.top;
    mock_poke(s.m, top + 8, (s.thread.end - s.thread.at) | 1);
    if (ends_with_heap)
        mock_poke(s.m, top + 8, (s.thread.end - top) | 1);
    mock_poke(s.m, pointer, top);
    s.f = found_heaps(s.m);
    if (ends_with_heap && top % 16 == 0) {
        CHECK_CLEAN(s.f);
    } else {
        CHECK_FAULT(s.f, "top does not end with its heap");
    }
    CHECK(s.f->heaps.heaps.items[3].has_top == (ends_with_heap && top % 16 == 0));
    end(&s);
}

// With huge pages a heap is four of them large, up to 2.41.
static void test_huge_heaps(const char *release, uint64_t heap_max)
{
    struct mock *m = mock_new(PAGE);
    struct scene s = {.m = m, .libc = mock_libc(m, release)};
    const uint64_t odd = UINT64_C(0x180000000000) + heap_max;
    m->heap_bytes = heap_max;
    mock_poke(m, mock_mp(m, s.libc, mock_libc_at(m, s.libc)->layout.par.hp_pagesize), 2 << 20);
    s.main = mock_main(m, s.libc, MAIN, LENGTH);
    mock_top(&s.main);
    s.thread = mock_arena(m, s.libc, odd, LENGTH);
    fill_heap(&s.thread);
    mock_next_heap(&s.thread, odd + 2 * heap_max, LENGTH);
    mock_top(&s.thread);
    s.f = found_all(m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.pars.items[0].heap_max, heap_max);
    CHECK_EQUAL(s.f->heaps.heaps.count, 3);
    end(&s);
}

static struct scene one_segment(uint64_t base)
{
    struct scene s = {.m = mock_new(PAGE)};
    s.libc = mock_libc(s.m, "2.36");
    mock_map(s.m, MAIN, LENGTH, "[heap]");
    s.main = mock_main(s.m, s.libc, MAIN, LENGTH);
    s.main.heap = s.main.at = (base + 15) & ~UINT64_C(15);
    mock_poke(s.m, mock_mp(s.m, s.libc, mock_libc_at(s.m, s.libc)->layout.par.sbrk_base), base);
    mock_chunk(&s.main, 1024);
    mock_top(&s.main);
    uint64_t system_mem = s.main.address + (uint64_t)mock_libc_at(s.m, s.libc)->layout.state.system_mem;
    mock_poke(s.m, system_mem, s.main.end - base);
    return s;
}

// The bytes before the first multiple of 16 are not malloc's, but brk gave them.
static void test_base(void)
{
    for (uint64_t base = MAIN + 24; base <= MAIN + 40; base += 8) {
        struct scene s = one_segment(base);
        s.f = found_all(s.m);
        CHECK_CLEAN(s.f);
        CHECK_EQUAL(s.f->heaps.heaps.items[0].start, (base + 15) & ~UINT64_C(15));
        CHECK_EQUAL(s.f->heaps.heaps.items[0].end, MAIN + LENGTH);
        CHECK(s.f->heaps.heaps.items[0].kind == AS_HEAP_BRK && s.f->heaps.heaps.items[0].has_top);
        end(&s);
    }
}

static void test_base_damaged(void)
{
    struct scene s = one_segment(MAIN);
    uint64_t base = mock_mp(s.m, s.libc, mock_libc_at(s.m, s.libc)->layout.par.sbrk_base);
    mock_poke(s.m, base, UINT64_C(0x700000000000));
    s.f = found_heaps(s.m);
    CHECK(s.f->heaps.incomplete && found_faults(s.f, "sbrk_base is not in writable anonymous memory") == 1);
    end(&s);

    s = one_segment(MAIN);
    mock_poke(s.m, base, MAIN + 16); // a chunk's middle: what is left out is missed
    s.f = found_heaps(s.m);
    CHECK_FAULT(s.f, "does not reach from mp_.sbrk_base as far as its system_mem says");
    end(&s);
}

static void test_without_mp(void)
{
    struct scene s = one_segment(MAIN);
    mock_libc_at(s.m, s.libc)->mp = AS_UNKNOWN;
    s.f = found_all(s.m);
    CHECK(s.f->heaps.faults.count == 2 && s.f->heaps.faults.items[0].what == AS_FAULT_NO_MP);
    CHECK_EQUAL(found_faults(s.f, "the number of mmapped chunks cannot be checked"), 1);
    CHECK(s.f->heaps.heaps.count == 1 && s.f->heaps.heaps.items[0].start == MAIN);
    end(&s);
}

// A core does not keep the name of what brk gave: the flags tell.
static void test_kind(void)
{
    struct scene s = one_segment(MAIN);
    s.m->target.kind = AS_TARGET_CORE;
    s.m->target.mappings.items[as_target_mapping_from(&s.m->target, MAIN)].path = 0;
    s.f = found_heaps(s.m);
    CHECK(s.f->heaps.heaps.items[0].kind == AS_HEAP_BRK);
    found_free(s.f);
    mock_poke32(s.m, s.main.address + (uint64_t)mock_libc_at(s.m, s.libc)->layout.state.flags, 2);
    s.f = found_heaps(s.m);
    CHECK(s.f->heaps.heaps.items[0].kind == AS_HEAP_MMAP);
    end(&s);
}

int main(void)
{
    static const char *const releases[] = {"2.17", "2.31", "2.36", "2.42", "2.44"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        test_order(releases[i]);
    test_damaged_headers();
    test_exact_header();
    test_top(0, true);
    test_top(16, true);
    test_top(16, false);
    test_top(-16, false);
    test_top(8, true);
    test_huge_heaps("2.36", 8 << 20);
    test_huge_heaps("2.42", 64 << 20);
    test_base();
    test_base_damaged();
    test_without_mp();
    test_kind();
    return 0;
}
