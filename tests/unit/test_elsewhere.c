// SPDX-License-Identifier: MIT
// A main arena that could not get its memory in one piece: behind what somebody else took from brk, and in maps.
#include "support/found.h"

enum { PAGE = 4096, LENGTH = 0x20000 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t MAPS[] = {UINT64_C(0x110000000000), UINT64_C(0x108000000000), UINT64_C(0x120000000000)};
static const uint64_t OTHER = UINT64_C(0x130000000000);

static void fill(struct mock_arena *a, int chunks)
{
    for (int i = 0; i < chunks; i++)
        mock_chunk(a, 256 + 16 * (uint64_t)i);
}

// The program itself has called sbrk in between: its bytes are none of malloc's.
static void test_foreign_sbrk(uint64_t foreign)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, "2.36");
    mock_map(m, MAIN, LENGTH, "[heap]");
    struct mock_arena a = mock_main(m, libc, MAIN, 0x8000);
    fill(&a, 20);
    uint64_t resumes = ((a.at + MOCK_FENCES + PAGE - 1) & ~(uint64_t)(PAGE - 1)) + foreign;
    mock_next_heap(&a, resumes, MAIN + LENGTH - resumes);
    uint64_t first = a.at;
    fill(&a, 20);
    mock_top(&a);
    struct found *f = found_all(m);
    CHECK_CLEAN(f);
    CHECK(f->heaps.heaps.count == 2 && !f->heaps.heaps.items[0].has_top && f->heaps.heaps.items[1].has_top);
    CHECK(f->heaps.heaps.items[1].start == first && f->heaps.heaps.items[1].kind == AS_HEAP_BRK);
    CHECK_EQUAL(found_count(f, AS_CHUNK_IN_USE), 40);
    found_free(f);
    mock_free(m);
}

static struct mock_arena in_maps(struct mock *m, uint32_t libc, uint64_t start, const uint64_t *maps, size_t count,
                                 int chunks)
{
    struct mock_arena a = mock_main(m, libc, start, LENGTH);
    fill(&a, chunks);
    for (size_t i = 0; i < count; i++) {
        mock_next_heap(&a, maps[i], LENGTH);
        fill(&a, chunks);
    }
    mock_top(&a);
    return a;
}

static void test_maps(void)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, "2.36");
    in_maps(m, libc, MAIN, MAPS, 3, 30);
    struct found *f = found_all(m);
    CHECK_CLEAN(f);
    CHECK_EQUAL(f->heaps.heaps.count, 4);
    CHECK_EQUAL(found_count(f, AS_CHUNK_IN_USE), 120);
    for (size_t i = 0; i < 4; i++) {
        const struct as_heap *heap = &f->heaps.heaps.items[i];
        CHECK(heap->has_top == (heap->start == MAPS[2]) && heap->arena == 0);
        CHECK(heap->kind == (heap->start == MAIN ? AS_HEAP_BRK : AS_HEAP_MMAP));
    }
    found_free(f);
    mock_free(m);
}

// A segment that its chunks do not prove: the sum says that something is missing.
static void test_damaged_segment(void)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, "2.36");
    in_maps(m, libc, MAIN, MAPS, 3, 30);
    mock_poke(m, MAPS[1] + 8, 0x18); // no size
    struct found *f = found_heaps(m);
    CHECK_FAULT(f, "segments that were found do not add up to its system_mem");
    CHECK(f->heaps.heaps.count == 3 && !f->heaps.incomplete);
    found_free(f);
    mock_poke(m, MAPS[2] + 8, 0x18); // the one with the top
    f = found_heaps(m);
    CHECK(f->heaps.incomplete && found_faults(f, "holds the main arena's top was not found") == 1);
    found_free(f);
    mock_free(m);
}

// Two chunks and fenceposts may be chance; more are not.
static void test_chance(uint64_t chunks, size_t heaps)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, "2.36");
    struct mock_arena a = mock_main(m, libc, MAIN, LENGTH);
    fill(&a, 20);
    mock_next_heap(&a, MAPS[0], LENGTH);
    for (uint64_t i = 0; i < chunks; i++)
        mock_chunk(&a, 32);
    mock_next_heap(&a, MAPS[2], LENGTH);
    mock_top(&a);
    struct found *f = found_heaps(m);
    CHECK_EQUAL(f->heaps.heaps.count, heaps);
    found_free(f);
    mock_free(m);
}

// Two libcs, whose main arenas both go on in maps: a segment is that one's whose lists lead to its free chunks.
static void test_two_libcs(const char *release, bool fast)
{
    struct mock *m = mock_new(PAGE);
    uint32_t first = mock_libc(m, "2.36");
    uint32_t second = mock_libc(m, release);
    struct mock_arena a[2];
    static const uint64_t starts[2] = {UINT64_C(0x100000000000), UINT64_C(0x101000000000)};
    static const uint64_t middles[2] = {UINT64_C(0x110000000000), UINT64_C(0x108000000000)};
    static const uint64_t lasts[2] = {UINT64_C(0x120000000000), UINT64_C(0x121000000000)};
    for (uint32_t i = 0; i < 2; i++) {
        a[i] = mock_main(m, i ? second : first, starts[i], LENGTH);
        fill(&a[i], 20);
        mock_next_heap(&a[i], middles[i], LENGTH);
        uint64_t freed = mock_chunk(&a[i], fast ? 64 : 2048);
        fill(&a[i], 20);
        mock_next_heap(&a[i], lasts[i], LENGTH);
        fill(&a[i], 20);
        mock_top(&a[i]);
        if (fast)
            mock_fast(&a[i], freed);
        else
            mock_unsorted(&a[i], freed);
    }
    struct found *f = found_all(m);
    CHECK_CLEAN(f);
    CHECK_EQUAL(f->heaps.heaps.count, 6);
    for (size_t i = 0; i < 6; i++) {
        uint64_t start = f->heaps.heaps.items[i].start;
        bool of_second = start == starts[1] || start == middles[1] || start == lasts[1];
        CHECK_EQUAL(f->heaps.heaps.items[i].arena, of_second);
    }
    CHECK_EQUAL(f->heaps.ambiguous_segment_bytes, 0);
    found_free(f);
    mock_free(m);
}

// A map of the program's own beside the first segment, in one mapping with it: the segment ends at its fenceposts.
static void test_neighbour(void)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, "2.36");
    mock_map(m, MAIN, 0x10000, "[heap]");
    mock_map(m, MAIN + 0x10000, 0x30000, "");
    mock_map(m, MAPS[0], LENGTH, "");
    struct mock_arena a = mock_main(m, libc, MAIN, 0x10000);
    fill(&a, 10);
    mock_chunk(&a, MAIN + 0x10000 - MOCK_FENCES - a.at);
    uint64_t used = MAIN + 0x10000;
    // By hand, as this memory is mapped already.
    mock_poke(m, a.at + 8, 17);
    mock_poke(m, a.at + 24, 17);
    mock_poke32(m, a.address + (uint64_t)mock_libc_at(m, libc)->layout.state.flags, 2);
    a.in_heaps = used - MAIN;
    a.heap = a.at = MAPS[0];
    a.end = MAPS[0] + LENGTH;
    fill(&a, 10);
    mock_top(&a);
    struct found *f = found_all(m);
    CHECK_CLEAN(f);
    CHECK(f->heaps.heaps.count == 2 && f->heaps.heaps.items[0].end == used);
    found_free(f);
    mock_free(m);
}

// What only resembles a segment is not given to an arena that lacks nothing.
static void test_similar_chunk(void)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, "2.36");
    mock_map(m, OTHER, LENGTH, "");
    for (uint64_t at = OTHER; at < OTHER + 64 * 20; at += 64)
        mock_poke(m, at + 8, 65);
    mock_poke(m, OTHER + 64 * 20 + 8, 17);
    mock_poke(m, OTHER + 64 * 20 + 24, 17);
    struct mock_arena a = mock_main(m, libc, MAIN, LENGTH);
    fill(&a, 20);
    mock_top(&a);
    struct found *f = found_all(m);
    CHECK_CLEAN(f);
    CHECK_EQUAL(f->heaps.heaps.count, 1);
    found_free(f);
    mock_free(m);
}

int main(void)
{
    test_foreign_sbrk(0);
    test_foreign_sbrk(48);
    test_foreign_sbrk(0x3000);
    test_maps();
    test_damaged_segment();
    test_chance(2, 2);
    test_chance(3, 3);
    test_two_libcs("2.36", false);
    test_two_libcs("2.36", true);
    test_two_libcs("2.31", true);
    test_two_libcs("2.43", false);
    test_neighbour();
    test_similar_chunk();
    return 0;
}
