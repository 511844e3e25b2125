// SPDX-License-Identifier: MIT
// The ring of arenas, each arena's header, and mp_.
#include "support/found.h"

enum { PAGE = 4096, LENGTH = 0x10000, HEAP = 64 << 20, THREADS = 5 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENAS = UINT64_C(0x180000000000);

struct scene {
    struct mock *m;
    const struct as_state_layout *at;
    struct mock_arena main, arenas[THREADS];
    struct as_heaps h;
};

static struct scene ring(const char *release)
{
    struct scene s = {.m = mock_new(PAGE)};
    uint32_t libc = mock_libc(s.m, release);
    s.at = &mock_libc_at(s.m, libc)->layout.state;
    s.main = mock_main(s.m, libc, MAIN, LENGTH);
    mock_chunk(&s.main, 64);
    mock_top(&s.main);
    for (uint64_t i = 0; i < THREADS; i++) {
        s.arenas[i] = mock_arena(s.m, libc, ARENAS + i * HEAP, LENGTH);
        mock_chunk(&s.arenas[i], 64);
        mock_top(&s.arenas[i]);
    }
    s.h = (struct as_heaps){.target = &s.m->target, .malloc = &s.m->malloc};
    return s;
}

static void read_all(struct scene *s)
{
    struct as_error err = {0};
    CHECK(as_arenas_read(&s->h, 0, &err), "%s", err.text);
}

static void end(struct scene *s)
{
    as_heaps_free(&s->h);
    mock_free(s->m);
}

static uint64_t next_of(const struct scene *s, size_t arena)
{
    return s->arenas[arena].address + (uint64_t)s->at->next;
}

static void test_ring(const char *release)
{
    struct scene s = ring(release);
    uint64_t last = s.arenas[2].address;
    mock_poke32(s.m, last + (uint64_t)s.at->flags, 6);
    mock_poke(s.m, last + (uint64_t)s.at->max_system_mem, 0x123450);
    if (s.at->attached_threads != AS_NONE)
        mock_poke(s.m, last + (uint64_t)s.at->attached_threads, 3);
    if (s.at->fastbin_count > 0)
        mock_poke(s.m, last + (uint64_t)s.at->fastbins + 72, 0x4321);
    read_all(&s);
    CHECK(s.h.faults.count == 0 && !s.h.incomplete);
    CHECK_EQUAL(s.h.arenas.count, 1 + THREADS);
    CHECK(s.h.arenas.items[0].main && s.h.arenas.items[0].address == s.main.address);
    for (size_t i = 1; i <= THREADS; i++) { // new arenas come right behind the main one
        const struct as_arena *a = &s.h.arenas.items[i];
        const struct mock_arena *written = &s.arenas[THREADS - i];
        CHECK(!a->main && a->address == written->address && a->top == written->at);
        CHECK_EQUAL(a->top_size, written->end - written->at);
        CHECK_EQUAL(a->system_mem, LENGTH);
        bool odd = a->address == last;
        CHECK_EQUAL(a->flags, odd ? 6 : 2);
        CHECK_EQUAL(a->max_system_mem, odd ? 0x123450 : LENGTH);
        CHECK_EQUAL(a->attached_threads, s.at->attached_threads == AS_NONE ? AS_UNKNOWN : odd ? 3 : 1);
        CHECK_EQUAL(a->fastbins[9], odd && s.at->fastbin_count > 0 ? 0x4321 : 0);
    }
    end(&s);
}

// A ring that does not come back to main_arena: each arena on the way is read once, and no more than the way is long.
static void test_broken_ring(uint64_t (*damage)(struct scene *), size_t arenas, const char *what)
{
    struct scene s = ring("2.36");
    mock_poke(s.m, next_of(&s, 1), damage(&s));
    read_all(&s);
    CHECK(s.h.incomplete && s.h.faults.count == 1 && strstr(s.h.faults.items[0].what, what), "%s", what);
    CHECK_EQUAL(s.h.arenas.count, arenas);
    for (size_t i = 0; i < s.h.arenas.count; i++)
        for (size_t k = 0; k < i; k++)
            CHECK(s.h.arenas.items[i].address != s.h.arenas.items[k].address);
    CHECK(s.m->reads < 100);
    end(&s);
}

static uint64_t to_itself(struct scene *s)
{
    return s->arenas[1].address;
}

static uint64_t to_the_first(struct scene *s)
{
    return s->arenas[THREADS - 1].address;
}

static uint64_t to_one_on_the_way(struct scene *s)
{
    return s->arenas[2].address;
}

static uint64_t to_nowhere(struct scene *s)
{
    (void)s;
    return UINT64_C(0x700000000000);
}

static uint64_t to_odd(struct scene *s)
{
    return s->arenas[0].address + 8;
}

static void test_unused_arena(void)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, "2.36");
    mock_main(m, libc, MAIN, LENGTH);
    struct found *f = found_all(m);
    CHECK_CLEAN(f);
    CHECK(f->heaps.arenas.count == 1 && f->heaps.arenas.items[0].top == 0 && f->heaps.heaps.count == 0);
    found_free(f);
    mock_free(m);
}

static void test_top_unreadable(void)
{
    struct scene s = ring("2.36");
    mock_poke(s.m, s.arenas[1].address + (uint64_t)s.at->top, UINT64_C(0x700000000000));
    read_all(&s);
    CHECK(s.h.incomplete && s.h.faults.count == 1 &&
          strstr(s.h.faults.items[0].what, "top of an arena that has memory"));
    CHECK_EQUAL(s.h.arenas.count, 1 + THREADS);
    CHECK_EQUAL(s.h.faults.items[0].arena, THREADS - 1);
    end(&s);
}

static void test_par(const char *release)
{
    struct scene s = ring(release);
    const struct as_par_layout *at = &mock_libc_at(s.m, 0)->layout.par;
    uint64_t mp = mock_libc_at(s.m, 0)->mp;
    bool has_tcache = at->tcache_count != AS_NONE;
    mock_poke(s.m, mp + (uint64_t)at->trim_threshold, 1001);
    mock_poke(s.m, mp + (uint64_t)at->top_pad, 1002);
    mock_poke(s.m, mp + (uint64_t)at->mmap_threshold, 1003);
    mock_poke(s.m, mp + (uint64_t)at->arena_test, 1004);
    mock_poke(s.m, mp + (uint64_t)at->arena_max, 1005);
    mock_poke32(s.m, mp + (uint64_t)at->n_mmaps, 1006);
    mock_poke32(s.m, mp + (uint64_t)at->no_dyn_threshold, 1);
    mock_poke(s.m, mp + (uint64_t)at->mmapped_mem, 1007);
    if (has_tcache) {
        mock_poke(s.m, mp + (uint64_t)at->tcache_count, 1008);
        mock_poke(s.m, mp + (uint64_t)at->tcache_max_bytes, 1009);
    }
    if (at->thp_pagesize != AS_NONE) {
        mock_poke(s.m, mp + (uint64_t)at->thp_pagesize, 1010);
        mock_poke(s.m, mp + (uint64_t)at->hp_pagesize, 1011); // no power of two: of no use
    }
    read_all(&s);
    const struct as_par *par = &s.h.pars.items[0];
    CHECK(par->trim_threshold == 1001 && par->top_pad == 1002 && par->mmap_threshold == 1003 &&
          par->arena_test == 1004 && par->arena_max == 1005 && par->n_mmaps == 1006 && par->no_dyn_threshold == 1 &&
          par->mmapped_mem == 1007 && par->sbrk_base == MAIN);
    CHECK_EQUAL(par->tcache_count, has_tcache ? 1008 : AS_UNKNOWN);
    CHECK_EQUAL(par->tcache_max_bytes, has_tcache ? 1009 : AS_UNKNOWN);
    CHECK_EQUAL(par->thp_pagesize, at->thp_pagesize != AS_NONE ? 1010 : AS_UNKNOWN);
    CHECK_EQUAL(par->hp_pagesize, at->thp_pagesize != AS_NONE ? 1011 : AS_UNKNOWN);
    CHECK_EQUAL(par->heap_max, HEAP);
    end(&s);
}

static void test_locked(void)
{
    struct scene s = ring("2.36");
    CHECK(!as_arenas_locked(&s.m->target, &s.m->malloc));
    mock_poke32(s.m, s.arenas[0].address + (uint64_t)s.at->mutex, 2); // the last one of the ring
    CHECK(as_arenas_locked(&s.m->target, &s.m->malloc));
    mock_poke(s.m, next_of(&s, 2), s.arenas[3].address); // a ring that does not reach it, and does not end
    CHECK(!as_arenas_locked(&s.m->target, &s.m->malloc));
    end(&s);
}

int main(void)
{
    static const char *const releases[] = {"2.17", "2.23", "2.26", "2.31", "2.36", "2.43", "2.44"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        test_ring(releases[i]);
        test_par(releases[i]);
    }
    test_broken_ring(to_itself, THREADS, "is not circular");
    test_broken_ring(to_the_first, THREADS, "is not circular");
    test_broken_ring(to_one_on_the_way, THREADS, "is not circular");
    test_broken_ring(to_nowhere, THREADS, "cannot be read");
    test_broken_ring(to_odd, THREADS, "is not circular");
    test_unused_arena();
    test_top_unreadable();
    test_locked();
    return 0;
}
