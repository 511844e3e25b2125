// SPDX-License-Identifier: MIT
// One heap of every kind of chunk under each layout that there is: what the builders wrote is what the finders and the walk
// find, chunk by chunk.
#include "support/found.h"

enum { PAGE = 4096, HEAP = 64 << 20 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENA = UINT64_C(0x180000000000);
static const uint64_t MAPS = UINT64_C(0x190000000000);

struct written {
    uint64_t used, unsorted, small, large[3], fast[2], cached[2], tcache, top;
};

static struct written write_arena(struct mock_arena *a, bool has_tcache, bool has_fastbins)
{
    struct mock *m = a->m;
    struct written w = {0};
    if (has_tcache)
        w.tcache = mock_tcache(a);
    w.used = mock_chunk(a, 1040);
    w.unsorted = mock_chunk(a, 2048);
    mock_chunk(a, 32);
    w.small = mock_chunk(a, 512);
    mock_chunk(a, 32);
    for (int i = 0; i < 3; i++) {
        w.large[i] = mock_chunk(a, i == 2 ? 6016 : 6000);
        mock_chunk(a, 48);
    }
    for (int i = 0; i < 2; i++) {
        w.fast[i] = mock_chunk(a, 48);
        w.cached[i] = mock_chunk(a, 64);
    }
    mock_chunk(a, 32);
    w.top = a->at;
    mock_top(a);
    mock_unsorted(a, w.unsorted);
    mock_bin(a, w.small);
    for (int i = 0; i < 3; i++)
        mock_bin(a, w.large[i]);
    for (int i = 0; i < 2; i++) {
        if (has_fastbins)
            mock_fast(a, w.fast[i]);
        if (has_tcache)
            mock_cache(m, a->libc, w.tcache, w.cached[i]);
    }
    return w;
}

static void check_arena(const struct found *f, const struct written *w, bool has_tcache, bool has_fastbins)
{
    CHECK(found_class(f, w->used) == AS_CHUNK_IN_USE && found_class(f, w->unsorted) == AS_CHUNK_BINNED &&
          found_class(f, w->small) == AS_CHUNK_BINNED && found_class(f, w->top) == AS_CHUNK_TOP);
    for (int i = 0; i < 3; i++)
        CHECK(found_class(f, w->large[i]) == AS_CHUNK_BINNED);
    for (int i = 0; i < 2; i++) {
        CHECK(found_class(f, w->fast[i]) == (has_fastbins ? AS_CHUNK_FASTBIN : AS_CHUNK_IN_USE));
        CHECK(found_class(f, w->cached[i]) == (has_tcache ? AS_CHUNK_TCACHE : AS_CHUNK_IN_USE));
    }
    CHECK(!has_tcache || found_class(f, w->tcache - 16) == AS_CHUNK_METADATA);
}

static void test_layout(const char *release)
{
    struct mock *m = mock_new(PAGE);
    uint32_t libc = mock_libc(m, release);
    bool has_tcache = mock_libc_at(m, libc)->layout.heap.tcache_size > 0;
    bool has_fastbins = mock_libc_at(m, libc)->layout.state.fastbin_count > 0;
    struct mock_arena main = mock_main(m, libc, MAIN, 0x40000);
    struct written in_main = write_arena(&main, has_tcache, has_fastbins);
    struct mock_arena thread = mock_arena(m, libc, ARENA, 0x30000);
    struct written in_thread = write_arena(&thread, has_tcache, has_fastbins);
    mock_map(m, MAPS, 0x60000, "");
    mock_mmapped(m, libc, MAPS, 0x21000);
    mock_mmapped(m, libc, MAPS + 0x21000, 0x3f000);
    mock_thread(m, 1, in_main.tcache, main.address);
    mock_thread(m, 2, in_thread.tcache, thread.address);

    struct found *f = found_all(m);
    CHECK_CLEAN(f);
    check_arena(f, &in_main, has_tcache, has_fastbins);
    check_arena(f, &in_thread, has_tcache, has_fastbins);
    CHECK_EQUAL(f->heaps.arenas.count, 2);
    CHECK_EQUAL(f->heaps.heaps.count, 2);
    CHECK_EQUAL(f->heaps.mmapped.count, 2);
    CHECK(found_count(f, AS_CHUNK_TCACHE) == (has_tcache ? 4 : 0) &&
          found_count(f, AS_CHUNK_FASTBIN) == (has_fastbins ? 4 : 0) && found_count(f, AS_CHUNK_BINNED) == 10 &&
          found_count(f, AS_CHUNK_UNKNOWN) == 0);
    for (size_t i = 0; i < 2; i++) {
        const struct as_thread_use *use = &f->heaps.threads.items[i];
        CHECK_EQUAL(use->arena, i);
        CHECK_EQUAL(use->tcache, i ? in_thread.tcache : in_main.tcache);
        CHECK_EQUAL(use->tcache_count, has_tcache ? 2 : 0);
        CHECK_EQUAL(use->tcache_bytes, has_tcache ? 128 : 0);
    }
    found_free(f);
    mock_free(m);
}

int main(void)
{
    static const char *const releases[] = {"2.17", "2.22", "2.23", "2.24", "2.25", "2.26", "2.27",
                                           "2.29", "2.30", "2.31", "2.32", "2.33", "2.34", "2.35",
                                           "2.36", "2.40", "2.41", "2.42", "2.43", "2.44"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
        test_layout(releases[i]);
    for (unsigned row = 0; row < AS_LAYOUT_ROWS; row++) { // none is left out of this list
        bool tried = false;
        for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
            tried |= as_layout_rows_of_version(releases[i]) == 1u << row;
        CHECK(tried, "no release of layout row %u is tried", row);
    }
    return 0;
}
