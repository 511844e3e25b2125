// SPDX-License-Identifier: MIT
// Tcaches that no thread has any more, as in a child after fork: what they hold is free, if they are really that.
#include "support/found.h"

enum { PAGE = 4096, CACHED = 5, SIZE = 96 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENA = UINT64_C(0x180000000000);

// Thread 1 is left; another one's tcache, with CACHED chunks, lies in the thread arena.
struct scene {
    struct mock *m;
    struct mock_arena main, thread;
    uint64_t own, lost, empty, chunks[CACHED];
    struct found *f;
};

static struct scene after_fork(const char *release)
{
    struct scene s = {.m = mock_new(PAGE)};
    uint32_t libc = mock_libc(s.m, release);
    s.main = mock_main(s.m, libc, MAIN, 0x20000);
    s.thread = mock_arena(s.m, libc, ARENA, 0x20000);
    s.own = mock_tcache(&s.main);
    mock_chunk(&s.main, 64);
    mock_top(&s.main);
    s.empty = mock_tcache(&s.thread);
    s.lost = mock_tcache(&s.thread);
    for (int i = 0; i < CACHED; i++)
        s.chunks[i] = mock_chunk(&s.thread, SIZE);
    mock_chunk(&s.thread, 64);
    mock_top(&s.thread);
    for (int i = 0; i < CACHED; i++)
        mock_cache(s.m, libc, s.lost, s.chunks[i]);
    mock_thread(s.m, 1, s.own, s.main.address);
    return s;
}

static size_t lose(struct scene *s)
{
    struct as_error err = {0};
    bool found;
    s->f = found_all(s->m);
    CHECK(as_lost_tcaches_find(&s->f->heaps, &found, &err), "%s", err.text);
    CHECK(found == (s->f->heaps.lost_tcaches.count > 0));
    return s->f->heaps.lost_tcaches.count;
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

static void test_orphan_tcaches(const char *release)
{
    struct scene s = after_fork(release);
    bool known = mock_libc_at(s.m, 0)->layout.heap.tcache_counts_down; // an empty one of before 2.42 is all zeros
    CHECK_EQUAL(lose(&s), known ? 2 : 1);
    CHECK_CLEAN(s.f);
    const struct as_lost_tcache *lost = &s.f->heaps.lost_tcaches.items[known ? 1 : 0];
    CHECK_EQUAL(lost->address, s.lost);
    CHECK_EQUAL(lost->count, CACHED);
    CHECK_EQUAL(lost->bytes, CACHED * SIZE);
    CHECK_EQUAL(s.f->heaps.zero_candidates, !known);
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_TCACHE), 0);
    // Found anew, with what is known now.
    struct as_error err = {0};
    CHECK(as_heaps_find_again(&s.f->heaps, &err), "%s", err.text);
    size_t cached = 0;
    for (size_t i = 0; i < s.f->heaps.cached.count; i++)
        for (int k = 0; k < CACHED; k++)
            cached += s.f->heaps.cached.items[i] == (s.chunks[k] | AS_CHUNK_TCACHE);
    CHECK_EQUAL(cached, CACHED);
    end(&s);
}

// The program's own memory that resembles one.
static void test_not_lost(const char *release, int damage)
{
    struct scene s = after_fork(release);
    if (damage == 1) // the keys that malloc writes are another's
        for (int i = 0; i < CACHED; i++)
            mock_poke(s.m, s.chunks[i] + 24, mock_libc_at(s.m, 0)->layout.heap.safe_linking ? 0 : s.own);
    if (damage == 2)
        mock_poke(s.m, s.chunks[2] + 24, 1); // or not all alike
    if (damage == 3)
        mock_poke(s.m, s.chunks[2] + 16, 0x123450);
    if (damage == 4) { // one of its chunks is in a list of the thread's
        mock_poke16(s.m, s.own + 2 * (SIZE / 16 - 2), 1);
        mock_poke(s.m, s.own + (uint64_t)mock_libc_at(s.m, 0)->layout.heap.tcache_entries + 8 * (SIZE / 16 - 2),
                  s.chunks[0] + 16);
    }
    CHECK_EQUAL(lose(&s), damage == 0);
    end(&s);
}

int main(void)
{
    static const char *const releases[] = {"2.26", "2.31", "2.33", "2.36", "2.42", "2.44"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        test_orphan_tcaches(releases[i]);
    for (int damage = 0; damage < 5; damage++) {
        test_not_lost("2.31", damage);
        test_not_lost("2.36", damage);
    }
    return 0;
}
