// SPDX-License-Identifier: MIT
// Fastbins: whose chunks seem used, and which the lists alone tell.
#include "support/found.h"

enum { PAGE = 4096, EACH = 8, SIZES = 7 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENA = UINT64_C(0x180000000000);

// An arena with EACH chunks in each of the fastbins that malloc uses by default, the last one written first in its list.
struct scene {
    struct mock *m;
    struct mock_arena a;
    uint64_t chunks[SIZES][EACH], used;
    struct found *f;
};

static struct scene fill(const char *release, bool thread)
{
    struct scene s = {.m = mock_new(PAGE)};
    uint32_t libc = mock_libc(s.m, release);
    struct mock_arena main = mock_main(s.m, libc, MAIN, 0x20000);
    mock_chunk(&main, 64);
    if (thread)
        mock_top(&main);
    s.a = thread ? mock_arena(s.m, libc, ARENA, 0x20000) : main;
    for (int k = 0; k < EACH; k++)
        for (uint64_t i = 0; i < SIZES; i++)
            s.chunks[i][k] = mock_chunk(&s.a, 32 + 16 * i);
    s.used = mock_chunk(&s.a, 64);
    mock_chunk(&s.a, 64);
    mock_top(&s.a);
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < EACH; k++)
            mock_fast(&s.a, s.chunks[i][k]);
    return s;
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

static void set_link(struct scene *s, uint64_t chunk, uint64_t to)
{
    mock_poke(s->m, chunk + 16, mock_link(s->m, 0, chunk + 16, to));
}

static void test_members(const char *release, bool thread)
{
    struct scene s = fill(release, thread);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    for (int i = 0; i < SIZES; i++)
        for (int k = 0; k < EACH; k++)
            CHECK(found_class(s.f, s.chunks[i][k]) == AS_CHUNK_FASTBIN);
    CHECK(found_count(s.f, AS_CHUNK_FASTBIN) == SIZES * EACH && found_class(s.f, s.used) == AS_CHUNK_IN_USE);
    end(&s);
}

// The chunks of one list up to the damage are its members; those of the others are not touched by it.
static void test_damaged(const char *release, int at, uint64_t to, const char *what)
{
    struct scene s = fill(release, false);
    set_link(&s, s.chunks[2][at],
             to == 0   ? s.used + 16
             : to == 1 ? s.chunks[2][EACH - 1]
             : to == 2 ? s.chunks[3][0]
                       : to);
    s.f = found_all(s.m);
    CHECK_FAULT(s.f, what);
    bool bin_is_read = to > 2; // a link that leads out of the arena is none
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_FASTBIN), SIZES * EACH - (uint64_t)at - bin_is_read);
    end(&s);
}

// The same by following the lists, for a heap with too many places that might be members.
static void test_follow(const char *release, bool loop)
{
    struct scene s = fill(release, true);
    struct as_error err = {0};
    as_address_vec members = {0};
    if (loop)
        set_link(&s, s.chunks[4][0], s.chunks[4][3]);
    s.f = found_heaps(s.m);
    CHECK(as_fastbin_members_read(&s.f->heaps, 1, &members, &err), "%s", err.text);
    if (loop) {
        CHECK_FAULT(s.f, "a fastbin's list has a cycle");
        CHECK(members.count >= SIZES * EACH && members.count < 2 * SIZES * EACH);
    } else {
        CHECK_CLEAN(s.f);
        CHECK_EQUAL(members.count, SIZES * EACH);
        for (size_t i = 1; i < members.count; i++)
            CHECK(members.items[i - 1] < members.items[i]);
    }
    members.count = 0;
    s.f->heaps.faults.count = 0;
    mock_poke(s.m, s.chunks[4][5] + 8, 112 | 5); // of another size
    CHECK(as_fastbin_members_read(&s.f->heaps, 1, &members, &err), "%s", err.text);
    CHECK_FAULT(s.f, "a fastbin's list leads to something other than a chunk");
    CHECK_EQUAL(members.count, (SIZES - 1) * EACH + 2);
    as_vec_free(&members);
    end(&s);
}

// Only chunks of the arena's own addresses are noted, and only of sizes whose bin is not empty.
static void test_notes(void)
{
    struct scene s = fill("2.31", true);
    s.f = found_heaps(s.m);
    mock_poke(s.m, s.a.address + (uint64_t)mock_libc_at(s.m, 0)->layout.state.fastbins + 8, 0);
    found_free(s.f);
    s.f = found_heaps(s.m);
    struct as_fastbin_candidates n = {0};
    as_fastbin_candidates_begin(&n, &s.f->heaps, 1);
    CHECK_EQUAL(n.bins, 0x7d);
    CHECK(n.low == ARENA && n.high == ARENA + 0x20000 && !n.safe_linking);
    as_fastbin_candidate_add(&n, s.used, 64, 0);
    as_fastbin_candidate_add(&n, s.used, 64, ARENA);
    CHECK_EQUAL(n.links.count, 2);
    as_fastbin_candidate_add(&n, s.used, 48, 0);               // an empty bin's
    as_fastbin_candidate_add(&n, s.used, 64, ARENA - 16);      // outside
    as_fastbin_candidate_add(&n, s.used, 64, ARENA + 0x20000); // likewise
    as_fastbin_candidate_add(&n, s.used, 64, ARENA + 8);       // no chunk
    as_fastbin_candidate_add(&n, s.used, 192, 0);              // larger than any fastbin's
    CHECK(n.links.count == 2 && !n.overflow);
    as_fastbin_candidates_free(&n);
    end(&s);
}

int main(void)
{
    static const char *const releases[] = {"2.17", "2.26", "2.31", "2.32", "2.36", "2.42"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        test_members(releases[i], false);
        test_members(releases[i], true);
        test_damaged(releases[i], 3, 0, "a fastbin's list leads to something other than a chunk"); // inside a chunk
        test_damaged(releases[i], 0, 1, "a fastbin's list has a cycle");                           // to its first
        test_damaged(releases[i], 5, 2, "a fastbin's list leads to something other than a chunk"); // another list's
        test_damaged(releases[i], 4, UINT64_C(0x700000000000),
                     "a fastbin's list leads to something other than a chunk"); // nowhere
        test_follow(releases[i], false);
        test_follow(releases[i], true);
    }
    test_notes();
    return 0;
}
