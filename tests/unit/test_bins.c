// SPDX-License-Identifier: MIT
// Whether an arena's bins hold what the walk found free, no more and no less, whichever link is wrong.
#include "support/found.h"

enum { PAGE = 4096, FREE = 12, LENGTH = 0x40000 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENA = UINT64_C(0x180000000000);
static const char FAULT[] = "the bins of an arena do not contain exactly the free chunks of the walk";

struct scene {
    struct mock *m;
    struct mock_arena a;
    uint64_t chunks[FREE], used, head; // head: of the unsorted bin
    struct found *f;
};

// Free chunks of four sizes: unsorted, in a small bin, and in two large ones.
static struct scene some(const char *release, bool thread)
{
    struct scene s = {.m = mock_new(PAGE)};
    uint32_t libc = mock_libc(s.m, release);
    struct mock_arena main = mock_main(s.m, libc, MAIN, LENGTH);
    mock_chunk(&main, 64);
    if (thread)
        mock_top(&main);
    s.a = thread ? mock_arena(s.m, libc, ARENA, LENGTH) : main;
    static const uint64_t sizes[] = {512, 2048, 512, 8000};
    for (int i = 0; i < FREE; i++) {
        s.chunks[i] = mock_chunk(&s.a, sizes[i % 4] + (i >= 8 ? 16 : 0) * (uint64_t)(i % 4 == 3));
        s.used = mock_chunk(&s.a, 64);
    }
    mock_top(&s.a);
    for (int i = 0; i < FREE; i++) {
        if (i % 4 < 2)
            mock_unsorted(&s.a, s.chunks[i]);
        else
            mock_bin(&s.a, s.chunks[i]);
    }
    s.head = s.a.address + (uint64_t)mock_libc_at(s.m, libc)->layout.state.bins - 16;
    return s;
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

static void expect_fault(struct scene *s)
{
    s->f = found_all(s->m);
    CHECK_FAULT(s->f, FAULT);
    CHECK_EQUAL(s->f->heaps.faults.items[0].address, s->a.address);
    end(s);
}

static void test_right(const char *release, bool thread)
{
    struct scene s = some(release, thread);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_BINNED), FREE);
    end(&s);
}

// Each of a free chunk's links, and a bin's head's.
static void test_links(bool thread)
{
    for (int i = 0; i < FREE; i++)
        for (uint64_t link = 16; link <= 24; link += 8) {
            struct scene s = some("2.36", thread);
            mock_poke(s.m, s.chunks[i] + link, mock_peek(s.m, s.chunks[i] + link) ^ 0x10);
            expect_fault(&s);
        }
    for (uint64_t bin = 0; bin < 127; bin += 21) {
        struct scene s = some("2.36", thread);
        mock_poke(s.m, s.head + 16 * bin + 24, s.used);
        expect_fault(&s);
    }
}

// A free chunk that is in no list, and a list that has one in use.
static void test_members(void)
{
    struct scene s = some("2.36", false);
    uint64_t forward = mock_peek(s.m, s.chunks[4] + 16);
    uint64_t back = mock_peek(s.m, s.chunks[4] + 24);
    mock_poke(s.m, back + 16, forward);
    mock_poke(s.m, forward + 24, back);
    expect_fault(&s);

    s = some("2.36", false);
    forward = mock_peek(s.m, s.head + 16);
    mock_poke(s.m, s.used + 16, forward);
    mock_poke(s.m, s.used + 24, s.head);
    mock_poke(s.m, forward + 24, s.used);
    mock_poke(s.m, s.head + 16, s.used);
    expect_fault(&s);
}

// While malloc goes on, what is read need not agree; and an arena that was never used has no bins.
static void test_not_held_against(void)
{
    struct scene s = some("2.36", false);
    mock_poke(s.m, s.chunks[4] + 16, s.used);
    s.m->target.stop.active = false;
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    found_free(s.f);
    s.m->target.kind = AS_TARGET_CORE;
    s.f = found_all(s.m);
    CHECK_FAULT(s.f, FAULT);
    end(&s);
}

int main(void)
{
    static const char *const releases[] = {"2.17", "2.23", "2.27", "2.36", "2.43"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        test_right(releases[i], false);
        test_right(releases[i], true);
    }
    test_links(false);
    test_links(true);
    test_members();
    test_not_held_against();
    return 0;
}
