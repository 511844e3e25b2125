// SPDX-License-Identifier: MIT
// From chunk to chunk, and what is said where the chain breaks: no byte is left out, none is counted twice (found_all checks
// both), and how much is unknown.
#include "support/found.h"

enum { PAGE = 4096, CHUNKS = 60, LENGTH = 0x20000 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENA = UINT64_C(0x180000000000);

struct scene {
    struct mock *m;
    struct mock_arena a;
    uint64_t chunks[CHUNKS];
    struct found *f;
};

static uint64_t size_at(int i)
{
    return 128 + 16 * (uint64_t)(i % 7);
}

static struct scene row(bool thread)
{
    struct scene s = {.m = mock_new(PAGE)};
    uint32_t libc = mock_libc(s.m, "2.36");
    struct mock_arena main = mock_main(s.m, libc, MAIN, LENGTH);
    if (thread) {
        mock_chunk(&main, 64);
        mock_top(&main);
    }
    s.a = thread ? mock_arena(s.m, libc, ARENA, LENGTH) : main;
    for (int i = 0; i < CHUNKS; i++) {
        s.chunks[i] = mock_chunk(&s.a, size_at(i));
        for (uint64_t at = 16; at < size_at(i) - 8; at += 8)
            mock_poke(s.m, s.chunks[i] + at, UINT64_C(0x6b6b6b6b6b6b6b6b)); // no size anywhere in it
    }
    mock_top(&s.a);
    return s;
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

// The size field of chunk 30 damaged: the walk takes up again at the first chunk whose place it can prove.
static void test_damaged_size(bool thread, uint64_t size_field, int first_unknown, int first_known)
{
    struct scene s = row(thread);
    mock_poke(s.m, s.chunks[30] + 8, size_field);
    s.f = found_all(s.m);
    CHECK(s.f->torn == 1 && found_faults(s.f, "a chunk's size or flags cannot be right") == 1, "%#llx: torn %llu times",
          (unsigned long long)size_field, (unsigned long long)s.f->torn);
    CHECK_EQUAL(found_count(s.f, AS_CHUNK_UNKNOWN), 1);
    CHECK(found_class(s.f, s.chunks[first_unknown]) == AS_CHUNK_UNKNOWN);
    CHECK_EQUAL(found_bytes(s.f, AS_CHUNK_UNKNOWN), s.chunks[first_known] - s.chunks[first_unknown]);
    for (int i = 0; i < CHUNKS; i++)
        if (i < first_unknown || i >= first_known)
            CHECK(found_class(s.f, s.chunks[i]) == AS_CHUNK_IN_USE, "chunk %d", i);
    CHECK(found_class(s.f, s.a.at) == AS_CHUNK_TOP);
    end(&s);
}

static void test_damaged_sizes(bool thread)
{
    uint64_t flags = thread ? 5 : 1;
    test_damaged_size(thread, 0, 29, 31);          // without PREV_INUSE, so that the chunk before has no end either
    test_damaged_size(thread, 16 | flags, 30, 31); // a fencepost's, without the second one
    test_damaged_size(thread, (size_at(30) + 8) | flags, 30, 31);
    test_damaged_size(thread, LENGTH | flags, 30, 31);
    test_damaged_size(thread, UINT64_MAX, 30, 31);
    test_damaged_size(thread, size_at(30) | flags | 2, 30, 31);
    test_damaged_size(thread, (size_at(30) - 16) | flags, 30, 31); // leads into itself
    if (!thread)
        test_damaged_size(thread, size_at(30) | 5, 30, 31);
    else
        test_damaged_size(thread, size_at(30) | 1, 30, 32); // in use by the next one's word, and without NON_MAIN_ARENA
}

// PREV_INUSE cleared: the chunk before seems free, and its footer denies it.
static void test_footer(void)
{
    struct scene s = row(false);
    mock_poke(s.m, s.chunks[30] + 8, size_at(30));
    mock_poke(s.m, s.chunks[30], size_at(29) + 16);
    s.f = found_all(s.m);
    CHECK_EQUAL(s.f->torn, 1);
    CHECK(found_class(s.f, s.chunks[29]) == AS_CHUNK_UNKNOWN && found_class(s.f, s.chunks[28]) == AS_CHUNK_IN_USE &&
          found_class(s.f, s.chunks[31]) == AS_CHUNK_IN_USE);
    CHECK(found_bytes(s.f, AS_CHUNK_UNKNOWN) <= size_at(29) + size_at(30));
    end(&s);
}

// Where the chain cannot be taken up again, or may not be searched for any longer, the rest is unknown, and the top is not.
static void test_no_way_back(void)
{
    struct scene s = row(false);
    for (int i = 30; i < CHUNKS; i++)
        mock_poke(s.m, s.chunks[i] + 8, 24 | 1);
    s.f = found_all(s.m);
    CHECK(s.f->torn == 1 && found_bytes(s.f, AS_CHUNK_UNKNOWN) == s.a.at - s.chunks[30]);
    CHECK(found_class(s.f, s.a.at) == AS_CHUNK_TOP);
    found_free(s.f);
    mock_free(s.m);

    s = row(false);
    mock_poke(s.m, s.chunks[30] + 8, 24 | 1);
    s.f = found_heaps(s.m);
    s.f->heaps.resync_budget = 4; // places
    struct as_window w;
    struct found_sink sink = found_sink(s.f);
    CHECK(as_window_open(&w, &s.m->target, NULL) && as_walk_heap(&s.f->heaps, 0, &w, &sink.sink, NULL, &s.f->torn));
    as_window_close(&w);
    CHECK_EQUAL(found_bytes(s.f, AS_CHUNK_UNKNOWN), s.a.at - s.chunks[30]);
    end(&s);
}

// The last chunk ends at the top exactly; with the top moved by 16 bytes it does not.
static void test_last_chunk(int moved)
{
    struct scene s = row(false);
    mock_poke(s.m, s.chunks[CHUNKS - 1] + 8, (size_at(CHUNKS - 1) + (uint64_t)(int64_t)moved) | 1);
    s.f = found_all(s.m);
    CHECK_EQUAL(s.f->torn, moved != 0);
    CHECK(found_class(s.f, s.chunks[CHUNKS - 1]) == (moved ? AS_CHUNK_UNKNOWN : AS_CHUNK_IN_USE));
    CHECK(found_class(s.f, s.a.at) == AS_CHUNK_TOP);
    end(&s);
}

// More chunks than a window and than a batch hold, every fifth of them free.
static void test_windows(uint64_t size)
{
    struct mock *m = mock_new(PAGE);
    struct scene s = {.m = m};
    uint32_t libc = mock_libc(m, "2.36");
    s.a = mock_main(m, libc, MAIN, 5 << 20);
    uint64_t count = ((5 << 20) - 4096) / (size + 8);
    uint64_t *chunks = calloc(count, sizeof *chunks);
    for (uint64_t i = 0; i < count; i++)
        chunks[i] = mock_chunk(&s.a, (size + 16 * (i % 2)) & ~UINT64_C(15));
    mock_top(&s.a);
    for (uint64_t i = 0; i + 1 < count; i += 5)
        mock_unsorted(&s.a, chunks[i]);
    s.f = found_all(m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->count, count + 1);
    for (uint64_t i = 0; i < count; i++) {
        bool is_free = i % 5 == 0 && i + 1 < count;
        CHECK_EQUAL(s.f->chunks[i].address, chunks[i]);
        CHECK(as_chunk_class_of(s.f->chunks[i]) == (is_free ? AS_CHUNK_BINNED : AS_CHUNK_IN_USE), "chunk %llu",
              (unsigned long long)i);
    }
    free(chunks);
    end(&s);
}

static enum as_chain_end follow(struct scene *s, uint64_t from, uint64_t limit, bool main, uint64_t most, uint64_t *end)
{
    struct as_window w;
    CHECK(as_window_open(&w, &s->m->target, NULL));
    w.limit = limit;
    enum as_chain_end how = as_chain_follow(&w, from, limit, main, most, end);
    as_window_close(&w);
    return how;
}

static void test_chain(bool thread)
{
    struct scene s = row(thread);
    uint64_t at;
    for (uint64_t most = 10; most < 100; most += 80) { // a probe, and a long way
        CHECK(follow(&s, s.chunks[0], s.chunks[9], !thread, most, &at) == AS_CHAIN_LIMIT && at == s.chunks[9]);
        CHECK(follow(&s, s.chunks[0], s.chunks[9] + 16, !thread, most, &at) == AS_CHAIN_BROKEN && at == s.chunks[9]);
        CHECK(follow(&s, s.chunks[0] + 16, s.chunks[9], !thread, most, &at) == AS_CHAIN_BROKEN);
    }
    CHECK(follow(&s, s.chunks[0], s.chunks[50], !thread, 10, &at) == AS_CHAIN_LIMIT && at == s.chunks[9]);
    // A free chunk's footer has its size.
    mock_poke(s.m, s.chunks[7] + 8, mock_peek(s.m, s.chunks[7] + 8) & ~UINT64_C(1));
    mock_poke(s.m, s.chunks[7], size_at(6) + 16);
    CHECK(follow(&s, s.chunks[0], s.chunks[9], !thread, 20, &at) == AS_CHAIN_BROKEN && at == s.chunks[7]);
    mock_poke(s.m, s.chunks[7], size_at(6));
    CHECK(follow(&s, s.chunks[0], s.chunks[9], !thread, 20, &at) == AS_CHAIN_LIMIT);
    // Fenceposts in place of chunk 5.
    mock_poke(s.m, s.chunks[5] + 8, 16 | 1);
    CHECK(follow(&s, s.chunks[0], s.chunks[9], !thread, 20, &at) == AS_CHAIN_BROKEN && at == s.chunks[5]);
    mock_poke(s.m, s.chunks[5] + 24, thread ? 1 : 17);
    CHECK(follow(&s, s.chunks[0], s.chunks[9], !thread, 20, &at) == AS_CHAIN_FENCEPOST && at == s.chunks[5] + 32);
    CHECK(follow(&s, s.chunks[0], s.chunks[5] + 32, !thread, 20, &at) == AS_CHAIN_FENCEPOST);
    CHECK(follow(&s, s.chunks[0], s.chunks[5] + 24, !thread, 20, &at) == AS_CHAIN_BROKEN);
    // A thread arena's may be a chunk of 32 bytes; no main arena's is.
    mock_poke(s.m, s.chunks[5] + 8, 32 | 1);
    mock_poke(s.m, s.chunks[5] + 40, thread ? 1 : 17);
    CHECK(follow(&s, s.chunks[0], s.chunks[9], !thread, 20, &at) == (thread ? AS_CHAIN_FENCEPOST : AS_CHAIN_BROKEN));
    s.f = found_heaps(s.m);
    end(&s);
}

// A top of which 16 bytes were left before the fenceposts: there are three, up to the end of a page.
static void test_three_fenceposts(void)
{
    struct scene s = row(false);
    uint64_t at = MAIN + PAGE - 48;
    uint64_t end_at;
    mock_poke(s.m, MAIN + 8, (at - MAIN) | 1);
    for (uint64_t i = 0; i < 3; i++)
        mock_poke(s.m, at + 16 * i + 8, 17);
    CHECK(follow(&s, MAIN, MAIN + LENGTH, true, 20, &end_at) == AS_CHAIN_FENCEPOST && end_at == MAIN + PAGE);
    mock_poke(s.m, at + 40, 33);
    CHECK(follow(&s, MAIN, MAIN + LENGTH, true, 20, &end_at) == AS_CHAIN_FENCEPOST && end_at == MAIN + PAGE - 16);
    s.f = found_heaps(s.m);
    end(&s);
}

int main(void)
{
    test_damaged_sizes(false);
    test_damaged_sizes(true);
    test_footer();
    test_no_way_back();
    test_last_chunk(0);
    test_last_chunk(16);
    test_last_chunk(-16);
    test_windows(480);
    test_windows(2000);
    test_windows(70000);
    test_chain(false);
    test_chain(true);
    test_three_fenceposts();
    return 0;
}
