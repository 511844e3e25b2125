// SPDX-License-Identifier: MIT
// What the threads' tcaches hold: lists that are right, lists that are damaged, and tcaches that no thread leads to.
#include "support/found.h"

enum { PAGE = 4096, CHUNKS = 6, LARGE = 2, SIZE = 64 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t MAPS = UINT64_C(0x190000000000);

// One thread whose tcache has CHUNKS chunks of SIZE bytes, the last one written first in the list.
struct scene {
    struct mock *m;
    struct mock_arena main;
    const struct as_heap_layout *layout;
    uint64_t tcache, chunks[CHUNKS], spare, count_at, entry_at;
    struct found *f;
};

static struct scene six(const char *release)
{
    struct scene s = {.m = mock_new(PAGE)};
    uint32_t libc = mock_libc(s.m, release);
    s.layout = &mock_libc_at(s.m, libc)->layout.heap;
    s.main = mock_main(s.m, libc, MAIN, 0x20000);
    s.tcache = mock_tcache(&s.main);
    for (int i = 0; i < CHUNKS; i++) {
        s.chunks[i] = mock_chunk(&s.main, SIZE);
        mock_chunk(&s.main, 32);
    }
    s.spare = mock_chunk(&s.main, SIZE);
    mock_top(&s.main);
    for (int i = 0; i < CHUNKS; i++)
        mock_cache(s.m, libc, s.tcache, s.chunks[i]);
    s.count_at = s.tcache + (uint64_t)s.layout->tcache_count_size * LARGE;
    s.entry_at = s.tcache + (uint64_t)s.layout->tcache_entries + 8 * LARGE;
    mock_thread(s.m, 1, s.tcache, s.main.address);
    return s;
}

static void set_count(struct scene *s, uint16_t count)
{
    mock_poke16(s->m, s->count_at, s->layout->tcache_counts_down ? (uint16_t)(7 - count) : count);
}

static void set_link(struct scene *s, int chunk, uint64_t to)
{
    mock_poke(s->m, s->chunks[chunk] + 16, mock_link(s->m, 0, s->chunks[chunk] + 16, to));
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

static void expect(struct scene *s, const char *fault, uint64_t count)
{
    s->f = found_heaps(s->m);
    CHECK(found_faults(s->f, fault) == 1, "%s: %zu faults, the first: %s", fault, s->f->heaps.faults.count,
          s->f->heaps.faults.count ? s->f->heaps.faults.items[0].what : "none");
    CHECK_EQUAL(s->f->heaps.threads.items[0].tcache_count, count);
    end(s);
}

static void test_lists(const char *release)
{
    struct scene s = six(release);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.threads.items[0].tcache_count, CHUNKS);
    CHECK_EQUAL(s.f->heaps.threads.items[0].tcache_bytes, CHUNKS * SIZE);
    for (int i = 0; i < CHUNKS; i++)
        CHECK(found_class(s.f, s.chunks[i]) == AS_CHUNK_TCACHE);
    CHECK(found_class(s.f, s.spare) == AS_CHUNK_IN_USE && found_count(s.f, AS_CHUNK_TCACHE) == CHUNKS);
    end(&s);
}

static void test_damaged_lists(const char *release)
{
    struct scene s = six(release);
    set_count(&s, CHUNKS - 1);
    expect(&s, "a tcache list is longer than its count", CHUNKS - 1);

    s = six(release);
    set_count(&s, CHUNKS + 1);
    expect(&s, "a tcache list is broken", CHUNKS);

    s = six(release);
    set_link(&s, 3, UINT64_C(0x700000000000));
    expect(&s, "a tcache list is broken", 3);

    s = six(release);
    set_link(&s, 3, s.chunks[2] + 24);
    expect(&s, "a tcache list is broken", 3);

    s = six(release);
    mock_poke(s.m, s.chunks[2] + 8, (SIZE + 16) | 1);
    expect(&s, "a chunk in a tcache bin has another size than the bin", 3);

    s = six(release);
    set_link(&s, 0, s.spare + 16);
    expect(&s, "a tcache list is longer than its count", CHUNKS);

    s = six(release);
    set_link(&s, 0, s.chunks[0] + 16);
    expect(&s, "a tcache list is longer than its count", CHUNKS);
}

// A list that goes round is not followed as often as its count says.
static void test_loops(void)
{
    for (int to = 0; to < CHUNKS; to++) {
        struct scene s = six("2.36");
        mock_poke(s.m, mock_mp(s.m, 0, mock_libc_at(s.m, 0)->layout.par.tcache_count), 60000);
        mock_poke16(s.m, s.count_at, 60000);
        set_link(&s, 0, s.chunks[to] + 16);
        s.f = found_heaps(s.m);
        CHECK_EQUAL(found_faults(s.f, "a tcache list has a cycle"), 1);
        CHECK(s.f->heaps.threads.items[0].tcache_count < 4 * CHUNKS);
        CHECK_EQUAL(s.f->heaps.cached.count, 1 + CHUNKS); // each once
        end(&s);
    }
}

static void test_two_owners(void)
{
    struct scene s = six("2.36");
    struct mock_arena thread = mock_arena(s.m, 0, UINT64_C(0x180000000000), 0x10000);
    uint64_t other = mock_tcache(&thread);
    mock_top(&thread);
    mock_poke16(s.m, other + 2 * LARGE, 1);
    mock_poke(s.m, other + (uint64_t)s.layout->tcache_entries + 8 * LARGE, s.chunks[0] + 16); // the last of the list
    mock_thread(s.m, 2, other, thread.address);
    s.f = found_all(s.m);
    CHECK_FAULT(s.f, "a chunk is in two lists at once");
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_TCACHE), CHUNKS);
    end(&s);
}

static void test_outside(void)
{
    struct scene s = six("2.36");
    mock_map(s.m, MAPS, MOCK_GRANULE, "");
    mock_poke(s.m, MAPS + 0x108, SIZE | 1);
    mock_poke(s.m, MAPS + 0x110, mock_link(s.m, 0, MAPS + 0x110, 0));
    set_count(&s, CHUNKS + 1);
    set_link(&s, 0, MAPS + 0x110);
    s.f = found_all(s.m);
    CHECK_FAULT(s.f, "a tcache holds a chunk that is in no heap");
    end(&s);
}

// A free chunk, or a place in the middle of a chunk, is none of a tcache's.
static void test_misplaced(bool binned)
{
    struct scene s = six("2.36");
    if (binned)
        mock_bin(&s.main, s.spare = s.chunks[2] + SIZE); // of 32 bytes
    mock_poke(s.m, s.tcache + (uint64_t)s.layout->tcache_entries, (binned ? s.spare : s.spare + 32) + 16);
    mock_poke16(s.m, s.tcache, 1);
    if (!binned)
        mock_poke(s.m, s.spare + 40, 33);
    mock_poke(s.m, (binned ? s.spare : s.spare + 32) + 16,
              mock_link(s.m, 0, (binned ? s.spare : s.spare + 32) + 16, 0));
    s.f = found_all(s.m);
    CHECK_EQUAL(found_faults(s.f, "a cached chunk is not where a chunk in use begins"), 1);
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_TCACHE), CHUNKS);
    end(&s);
}

// From 2.42 on there are bins for whole ranges of sizes.
static void test_large_bins(const char *release)
{
    struct scene s = six(release);
    struct mock_arena a = mock_arena(s.m, 0, UINT64_C(0x180000000000), 0x100000);
    uint64_t tcache = mock_tcache(&a);
    static const uint64_t sizes[] = {1040, 1056, 1072, 2032, 2048, 4080, 0x20000, 0x3fff0};
    uint64_t chunks[sizeof sizes / sizeof *sizes];
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        chunks[i] = mock_chunk(&a, sizes[i]);
    mock_top(&a);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mock_cache(s.m, 0, tcache, chunks[i]);
        sum += sizes[i];
    }
    mock_thread(s.m, 2, tcache, a.address);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.threads.items[1].tcache_bytes, sum);
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_TCACHE), CHUNKS + sizeof sizes / sizeof *sizes);
    found_free(s.f);
    mock_poke(s.m, chunks[4] + 8, 1056 | 5); // smaller than any in a bin of such a range
    s.f = found_heaps(s.m);
    CHECK_EQUAL(found_faults(s.f, "another size than the bin"), 1);
    end(&s);
}

// Without thread pointers the tcaches are searched for by what they are.
static void test_search(const char *release, bool empty)
{
    struct scene s = six(release);
    struct mock_arena a = mock_arena(s.m, 0, UINT64_C(0x180000000000), 0x100000);
    uint64_t other = mock_tcache(&a);
    uint64_t like = mock_chunk(&a, ((uint64_t)s.layout->tcache_size + 8 + 15) & ~UINT64_C(15)); // the program's
    uint64_t cached = mock_chunk(&a, 128);
    mock_top(&a);
    if (!empty)
        mock_cache(s.m, 0, other, cached);
    mock_poke16(s.m, like + 16, 1);
    mock_poke(s.m, like + 16 + (uint64_t)s.layout->tcache_entries, like + 32); // leads to what is no chunk
    s.m->target.threads.items[0].tp = AS_UNKNOWN;
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK(s.f->heaps.tcache_searched && s.f->heaps.threads.items[0].tcache == AS_UNKNOWN);
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_TCACHE), CHUNKS + !empty);
    bool known = !empty || s.layout->tcache_counts_down; // an empty one of before 2.42 is all zeros
    CHECK(found_class(s.f, other - 16) == (known ? AS_CHUNK_METADATA : AS_CHUNK_IN_USE));
    CHECK(found_class(s.f, s.tcache - 16) == AS_CHUNK_METADATA && found_class(s.f, like) == AS_CHUNK_IN_USE);
    end(&s);
}

static void test_wrong_limit(void)
{
    struct scene s = six("2.42");
    mock_poke(s.m, mock_mp(s.m, 0, mock_libc_at(s.m, 0)->layout.par.tcache_count), 3);
    s.m->target.threads.items[0].tp = AS_UNKNOWN;
    s.f = found_heaps(s.m);
    CHECK_FAULT(s.f, "does not agree with mp_.tcache_count");
    end(&s);
}

// From 2.43 on a tcache may hold mmapped chunks; and with a low threshold the struct itself has a map of its own.
static void test_mmapped(void)
{
    struct scene s = six("2.43");
    mock_map(s.m, MAPS, 4 * MOCK_GRANULE, "");
    mock_mmapped(s.m, 0, MAPS, 2 * MOCK_GRANULE);
    mock_mmapped(s.m, 0, MAPS + 2 * MOCK_GRANULE, 2 * MOCK_GRANULE);
    mock_cache(s.m, 0, s.tcache, MAPS + 2 * MOCK_GRANULE);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK(s.f->heaps.mmapped.count == 2 && s.f->heaps.mmapped.items[0].class == AS_CHUNK_IN_USE &&
          s.f->heaps.mmapped.items[1].class == AS_CHUNK_TCACHE);
    end(&s);

    for (int damage = 0; damage < 3; damage++) {
        s = six("2.36");
        mock_map(s.m, MAPS, MOCK_GRANULE, "");
        mock_mmapped(s.m, 0, MAPS, PAGE);
        mock_poke(s.m, MAPS + 8, (PAGE | 2) | (uint64_t)(damage == 1 ? 1 : 0));
        if (damage == 2)
            mock_poke(s.m, MAPS + 8, 2 * PAGE | 2); // larger than any such map
        mock_thread(s.m, 2, MAPS + 16, s.main.address);
        s.f = found_heaps(s.m);
        if (damage == 0) {
            CHECK_CLEAN(s.f);
            CHECK_EQUAL(s.f->heaps.mmapped.items[0].class, AS_CHUNK_METADATA);
        }
        CHECK_EQUAL(s.f->heaps.threads.items[1].tcache, damage == 0 ? MAPS + 16 : AS_UNKNOWN);
        end(&s);
    }
}

int main(void)
{
    static const char *const releases[] = {"2.26", "2.29", "2.30", "2.32", "2.36", "2.42", "2.43", "2.44"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        test_lists(releases[i]);
        test_damaged_lists(releases[i]);
        test_search(releases[i], false);
        test_search(releases[i], true);
    }
    test_loops();
    test_two_owners();
    test_outside();
    test_misplaced(true);
    test_misplaced(false);
    test_large_bins("2.42");
    test_large_bins("2.44");
    test_wrong_limit();
    test_mmapped();
    return 0;
}
