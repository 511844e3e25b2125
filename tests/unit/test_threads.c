// SPDX-License-Identifier: MIT
// Which arena and which tcache each thread has: by the words near its thread pointer, with symbols and without.
#include "support/found.h"

enum { PAGE = 4096, THREADS = 9, HEAP = 64 << 20, FAR_AWAY = 20000, NEARER = 32 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENAS = UINT64_C(0x180000000000);
static const uint64_t CONSTANTS = UINT64_C(0x1f0000000000);

struct scene {
    struct mock *m;
    struct mock_arena arenas[3];
    uint64_t tcaches[THREADS];
    struct found *f;
};

// The threads share three arenas; each has a tcache of its own.
static struct scene nine(const char *release, int distance)
{
    struct scene s = {.m = mock_new(PAGE)};
    uint32_t libc = mock_libc(s.m, release);
    for (uint64_t i = 0; i < 3; i++)
        s.arenas[i] = i == 0 ? mock_main(s.m, libc, MAIN, 0x20000) : mock_arena(s.m, libc, ARENAS + i * HEAP, 0x20000);
    for (uint64_t i = 0; i < THREADS; i++) {
        s.tcaches[i] = mock_tcache(&s.arenas[i % 3]);
        uint64_t cached = mock_chunk(&s.arenas[i % 3], 64);
        mock_cache(s.m, libc, s.tcaches[i], cached);
    }
    for (int i = 0; i < 3; i++) {
        mock_chunk(&s.arenas[i], 64);
        mock_top(&s.arenas[i]);
    }
    for (size_t i = 0; i < THREADS; i++) {
        mock_thread(s.m, (pid_t)i, 0, 0);
        mock_poke(s.m, mock_tls(s.m, i, distance), s.tcaches[i]);
        mock_poke(s.m, mock_tls(s.m, i, distance + 16), s.arenas[i % 3].address);
    }
    return s;
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

// The ring has the main arena first, then the newest.
static uint32_t index_of(size_t thread)
{
    return thread % 3 == 0 ? 0 : thread % 3 == 1 ? 2 : 1;
}

static const struct as_thread_use *use(const struct scene *s, size_t thread)
{
    return &s->f->heaps.threads.items[thread];
}

static void check_all_but(const struct scene *s, size_t but)
{
    for (size_t i = 0; i < THREADS; i++) {
        if (i == but)
            continue;
        CHECK_EQUAL(use(s, i)->arena, index_of(i));
        CHECK_EQUAL(use(s, i)->tcache, s->tcaches[i]);
        CHECK(use(s, i)->tcache_count == 1 && use(s, i)->tcache_bytes == 64 && !use(s, i)->tcache_invalid);
    }
}

static void test_near_and_far(const char *release)
{
    static const int distances[] = {8, MOCK_TLS_TCACHE, 4096 - 16, FAR_AWAY};
    for (size_t i = 0; i < sizeof distances / sizeof *distances; i++) {
        struct scene s = nine(release, distances[i]);
        s.f = found_all(s.m);
        CHECK_CLEAN(s.f);
        check_all_but(&s, THREADS);
        CHECK(!s.f->heaps.tcache_searched && s.f->heaps.tcaches_known.items[0]);
        end(&s);
    }
}

// A thread before its first malloc: null up to 2.42.
static void test_none_yet(void)
{
    struct scene s = nine("2.36", MOCK_TLS_TCACHE);
    mock_poke(s.m, mock_tls(s.m, 4, MOCK_TLS_TCACHE), 0);
    mock_poke(s.m, mock_tls(s.m, 4, MOCK_TLS_ARENA), 0);
    s.f = found_heaps(s.m);
    CHECK_CLEAN(s.f);
    check_all_but(&s, 4);
    CHECK(use(&s, 4)->tcache == 0 && use(&s, 4)->tcache_count == 0 && use(&s, 4)->arena == UINT32_MAX);
    end(&s);
}

// A tcache that makes no sense is unknown, never empty; and it is one thread's matter.
static void test_odd(uint64_t offset, uint64_t value)
{
    struct scene s = nine("2.36", MOCK_TLS_TCACHE);
    mock_poke(s.m, s.tcaches[5] + offset, value);
    s.f = found_heaps(s.m);
    check_all_but(&s, 5);
    CHECK(use(&s, 5)->tcache == AS_UNKNOWN && use(&s, 5)->tcache_invalid && use(&s, 5)->tcache_count == AS_UNKNOWN);
    CHECK(!s.f->heaps.tcaches_known.items[0]);
    end(&s);
}

static void test_pointer_unknown(void)
{
    struct scene s = nine("2.36", MOCK_TLS_TCACHE);
    s.m->target.threads.items[7].tp = AS_UNKNOWN;
    s.f = found_heaps(s.m);
    check_all_but(&s, 7);
    CHECK(use(&s, 7)->tcache == AS_UNKNOWN && use(&s, 7)->arena == UINT32_MAX && s.f->heaps.tcache_searched);
    CHECK_EQUAL(s.f->heaps.cached.count, 2 * THREADS); // the search finds what nobody leads to
    end(&s);
}

// Each thread has its neighbour's pointers on its stack, nearer than its own: the symbols say which are the thread's.
static void test_symbols(bool named)
{
    struct scene s = nine("2.36", MOCK_TLS_TCACHE);
    for (size_t i = 0; i < THREADS; i++)
        mock_poke(s.m, mock_tls(s.m, i, NEARER), s.tcaches[(i + 1) % THREADS]);
    if (named)
        mock_libc_at(s.m, 0)->tls_tcache = mock_tls(s.m, 0, MOCK_TLS_TCACHE) - s.m->target.threads.items[0].tp;
    s.f = found_heaps(s.m);
    for (size_t i = 0; i < THREADS; i++)
        CHECK_EQUAL(use(&s, i)->tcache, s.tcaches[named ? i : (i + 1) % THREADS]);
    end(&s);
}

// One thread has a stale pointer nearer than all have theirs: the most threads decide.
static void test_stale(void)
{
    struct scene s = nine("2.36", MOCK_TLS_TCACHE);
    mock_poke(s.m, mock_tls(s.m, 2, NEARER), s.tcaches[3]);
    s.f = found_heaps(s.m);
    CHECK_CLEAN(s.f);
    check_all_but(&s, THREADS);
    end(&s);
}

// Words that fit most threads, but not all, are no reason not to inspect further away.
static void test_doubted(void)
{
    struct scene s = nine("2.36", MOCK_TLS_TCACHE);
    for (size_t i = 0; i < THREADS; i++) {
        mock_poke(s.m, mock_tls(s.m, i, FAR_AWAY), s.arenas[i % 3].address);
        if (i > 4)
            mock_poke(s.m, mock_tls(s.m, i, MOCK_TLS_ARENA), 0x1231);
    }
    s.f = found_heaps(s.m);
    check_all_but(&s, THREADS);
    end(&s);
}

// From 2.43 on a thread that has none yet leads to a constant of libc's: zeros in its file.
static void test_dummy(const char *path, uint64_t content, bool none)
{
    struct scene s = nine("2.43", MOCK_TLS_TCACHE);
    mock_map(s.m, CONSTANTS, MOCK_GRANULE, path)->prot = AS_PROT_READ;
    mock_poke(s.m, CONSTANTS + 0x300, content);
    mock_poke(s.m, mock_tls(s.m, 6, MOCK_TLS_TCACHE), CONSTANTS + 0x200);
    s.f = found_heaps(s.m);
    check_all_but(&s, 6);
    CHECK_EQUAL(use(&s, 6)->tcache, none ? 0 : AS_UNKNOWN);
    CHECK_EQUAL(use(&s, 6)->tcache_invalid, !none);
    end(&s);
}

// A libc that dlmopen loaded has variables of its own in the same block.
static void test_second_libc(void)
{
    struct scene s = nine("2.36", MOCK_TLS_TCACHE);
    uint32_t second = mock_libc(s.m, "2.31");
    struct mock_arena a = mock_main(s.m, second, UINT64_C(0x108000000000), 0x20000);
    uint64_t tcaches[2] = {mock_tcache(&a), mock_tcache(&a)};
    uint64_t cached = mock_chunk(&a, 128);
    mock_chunk(&a, 64);
    mock_top(&a);
    mock_cache(s.m, second, tcaches[1], cached);
    mock_cache(s.m, second, tcaches[0], mock_chunk(&s.arenas[0], 32)); // keeps it from being all zeros
    mock_top(&s.arenas[0]);
    mock_poke(s.m, mock_tls(s.m, 1, 1024), tcaches[0]);
    mock_poke(s.m, mock_tls(s.m, 8, 1024), tcaches[1]);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    check_all_but(&s, THREADS);
    CHECK(s.f->heaps.other_tcaches.count == 2 && s.f->heaps.other_tcaches.items[0].address == tcaches[0] &&
          s.f->heaps.other_tcaches.items[1].address == tcaches[1] &&
          s.f->heaps.other_tcaches.items[1].libc_index == second);
    CHECK(s.f->heaps.tcaches_known.items[1] && found_class(s.f, cached) == AS_CHUNK_TCACHE);
    end(&s);
}

// A malloc that has handed out nothing yet has no tcache anywhere.
static void test_unused(uint32_t mmaps, uint64_t expected)
{
    struct mock *m = mock_new(PAGE);
    struct scene s = {.m = m};
    uint32_t libc = mock_libc(m, "2.36");
    mock_poke32(m, mock_mp(m, libc, mock_libc_at(m, libc)->layout.par.n_mmaps), mmaps);
    mock_thread(m, 1, 5, 0); // a word that is no tcache
    m->target.threads.items[0].tp = AS_UNKNOWN;
    m->malloc.libcs.items[0].layout.state.fastbin_count = 10;
    s.f = found_heaps(m);
    CHECK_EQUAL(use(&s, 0)->tcache, expected);
    end(&s);
}

int main(void)
{
    static const char *const releases[] = {"2.26", "2.30", "2.36", "2.42", "2.43"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        test_near_and_far(releases[i]);
    test_none_yet();
    test_odd(0, 8);                            // a count without a list
    test_odd(4, UINT64_C(0x0001000100010001)); // likewise
    test_odd(128 + 8 * 2, 0);                  // a list without its count
    test_odd(128 + 8 * 2, 0x1230);             // a list that leads to nowhere
    test_odd((uint64_t)0 - 8, 0x1231);         // a chunk of another size
    test_odd(4, UINT64_C(0x0000000000000008)); // more chunks than mp_.tcache_count
    test_pointer_unknown();
    test_symbols(false);
    test_symbols(true);
    test_stale();
    test_doubted();
    test_dummy("/lib/libc.so.6", 0, true);
    test_dummy("/lib/libc.so.6", 1, false);
    test_dummy("/lib/other.so", 0, false);
    test_second_libc();
    test_unused(0, 0);
    return 0;
}
