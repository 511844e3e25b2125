// SPDX-License-Identifier: MIT
// What malloc_trim would return, page by page: the rules of mtrim and systrim at their edges, by 16 bytes.
#include "support/counted.h"

enum { SPARED = 48, LEAST = 32 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENA = UINT64_C(0x180000000000);

struct scene {
    struct mock *m;
    struct mock_arena a;
    uint64_t page, length;
    struct counted *c;
};

// A main arena, or a thread arena beside one, of 32 pages.
static struct scene begin(const char *release, uint32_t page, bool thread)
{
    struct scene s = {.m = mock_new(page), .page = page, .length = 32 * (uint64_t)page};
    uint32_t libc = mock_libc(s.m, release);
    struct mock_arena main = mock_main(s.m, libc, MAIN, s.length);
    if (thread) {
        mock_chunk(&main, s.length - 2 * page);
        mock_top(&main);
    }
    s.a = thread ? mock_arena(s.m, libc, ARENA, s.length) : main;
    return s;
}

static void count(struct scene *s, uint64_t brk_end)
{
    s->c = counted_all(s->m, brk_end, true);
    CHECK_CLEAN(s->c->f);
    CHECK_EQUAL(counted_warnings(s->c, AS_WARN_SUM), 0);
}

static void end(struct scene *s)
{
    counted_free(s->c);
    mock_free(s->m);
}

// A chunk in use up to an address.
static void use_up_to(struct scene *s, uint64_t address)
{
    mock_chunk(&s->a, address - s->a.at);
}

// A free chunk from `before` bytes ahead of a page to `behind` bytes after the start of the page `pages` further on: as many
// whole pages as that, and its links are spared.
static void test_chunk(uint32_t page, bool thread, uint64_t before, uint64_t pages, uint64_t behind, uint64_t whole)
{
    struct scene s = begin("2.36", page, thread);
    uint64_t base = s.a.heap + 4 * s.page;
    use_up_to(&s, base - before);
    uint64_t freed = mock_chunk(&s.a, before + pages * s.page + behind);
    use_up_to(&s, s.a.heap + s.length - s.page / 2);
    mock_top(&s.a);
    mock_unsorted(&s.a, freed);
    count(&s, thread ? 0 : MAIN + s.length);
    const struct as_ledger *l = counted_arena(s.c, thread);
    CHECK_EQUAL(l->releasable, whole * s.page);
    CHECK_EQUAL(l->malloc_trim, whole * s.page);
    CHECK_EQUAL(l->deep_trim, whole * s.page);
    CHECK_EQUAL(l->withheld, 0);
    CHECK_EQUAL(l->stranded, before + (pages - whole) * s.page + behind + s.page / 2);
    for (uint64_t i = 0; i < pages; i++) {
        bool released = i >= pages - whole;
        CHECK_EQUAL(counted_page(s.c, base + i * s.page)->state, released ? AS_PAGE_RELEASABLE : AS_PAGE_STRANDED);
    }
    end(&s);
}

// The main arena's top of this size, which ends with its last page: systrim leaves MINSIZE and one byte.
static void test_top(const char *release, uint32_t page, uint64_t size, uint64_t cut)
{
    struct scene s = begin(release, page, false);
    use_up_to(&s, MAIN + s.length - size);
    mock_top(&s.a);
    count(&s, MAIN + s.length);
    const struct as_ledger *l = counted_arena(s.c, 0);
    uint64_t whole = (size - 16) / s.page; // a deep trim's: all behind the top's header
    CHECK_EQUAL(l->releasable, cut * s.page);
    CHECK_EQUAL(l->malloc_trim, cut * s.page);
    CHECK_EQUAL(l->withheld, (whole - cut) * s.page);
    CHECK_EQUAL(l->deep_trim, whole * s.page);
    CHECK_EQUAL(l->stranded, size - whole * s.page);
    end(&s);
}

// Where brk is not where malloc left it, and in a thread arena, only a deep trim returns the top.
static void test_top_withheld(bool thread, uint64_t brk_end)
{
    struct scene s = begin("2.36", 4096, thread);
    use_up_to(&s, s.a.heap + s.length - 5 * s.page - 16);
    mock_top(&s.a);
    count(&s, brk_end);
    const struct as_ledger *l = counted_arena(s.c, thread);
    CHECK(l->releasable == 0 && l->malloc_trim == 0);
    CHECK_EQUAL(l->withheld, 5 * s.page);
    CHECK_EQUAL(l->deep_trim, 5 * s.page);
    CHECK_EQUAL(l->stranded, 16);
    end(&s);
}

// With huge pages the main arena's top is cut by those (2.35+).
static void test_top_of_huge_pages(uint64_t unit, uint64_t cut)
{
    struct scene s = begin("2.36", 4096, false);
    mock_poke(s.m, mock_mp(s.m, 0, mock_libc_at(s.m, 0)->layout.par.thp_pagesize), unit);
    use_up_to(&s, MAIN + s.length - 10 * s.page);
    mock_top(&s.a);
    count(&s, MAIN + s.length);
    CHECK_EQUAL(counted_arena(s.c, 0)->releasable, cut * s.page);
    end(&s);
}

// Chunks of fastbins are merged first, with each other, with what is free around them and with the top; not from 2.43 on,
// which has none, and never those of a tcache.
static void test_merged(bool to_top)
{
    struct scene s = begin("2.36", 4096, false);
    uint64_t tcache = mock_tcache(&s.a);
    use_up_to(&s, MAIN + 4 * s.page - 64);
    uint64_t first = mock_chunk(&s.a, 64);
    uint64_t middle = mock_chunk(&s.a, 2 * s.page);
    uint64_t fast = mock_chunk(&s.a, 64); // its header's page becomes whole
    uint64_t last = mock_chunk(&s.a, s.page - 64);
    uint64_t cached = to_top ? 0 : mock_chunk(&s.a, 64);
    if (!to_top)
        use_up_to(&s, MAIN + s.length - s.page / 2);
    else
        mock_fast(&s.a, mock_chunk(&s.a, 128));
    mock_top(&s.a);
    mock_fast(&s.a, first);
    mock_fast(&s.a, fast);
    mock_bin(&s.a, middle);
    if (to_top) { // up to the top all is free
        mock_poke(s.m, last + 8, 4032 | 1);
        mock_bin(&s.a, last);
    } else {
        mock_bin(&s.a, last);
        mock_cache(s.m, 0, tcache, cached);
    }
    count(&s, MAIN + s.length);
    const struct as_ledger *l = counted_arena(s.c, 0);
    if (!to_top) {
        CHECK_EQUAL(l->releasable, 3 * s.page); // spared: 48 bytes of the first fastbin's chunk
        CHECK_EQUAL(l->fastbin, 64);
        CHECK_EQUAL(l->tcache, 64);
    } else { // 28 pages less 64 bytes before: one page for MINSIZE
        CHECK_EQUAL(l->releasable, 28 * s.page);
        CHECK_EQUAL(l->withheld, 0);
    }
    end(&s);
}

static void test_page_in_middle(void)
{
    for (uint64_t before = 16; before <= 64; before += 16) {
        if (before < LEAST)
            continue;
        bool spared_fit = before >= SPARED;
        test_chunk(4096, false, before, 1, 32, spared_fit);
        test_chunk(4096, true, before, 3, 0, spared_fit ? 3 : 2);
    }
    test_chunk(4096, false, 4096 - 64, 1, 0, 1);
    test_chunk(16384, false, 48, 2, 16384 - 16, 2);
    test_chunk(16384, true, 32, 2, 16, 1);
    test_chunk(65536, false, 48, 1, 0, 1);
}

static void test_exact_top(void)
{
    for (uint32_t page = 4096; page <= 65536; page *= 4) {
        test_top("2.36", page, 3 * (uint64_t)page + 16, 2);
        test_top("2.36", page, 3 * (uint64_t)page + 32, 2); // MINSIZE alone, and not the one byte
        test_top("2.36", page, 3 * (uint64_t)page + 48, 3);
        test_top("2.36", page, 3 * (uint64_t)page, 2);
        test_top("2.44", page, 3 * (uint64_t)page + 48, 3);
        test_top("2.17", page, 3 * (uint64_t)page + 32, 2);
        test_top("2.36", page, 48, 0);
        test_top("2.36", page, (uint64_t)page + 32, 0);
        test_top("2.36", page, (uint64_t)page + 48, 1);
    }
}

int main(void)
{
    test_page_in_middle();
    test_exact_top();
    test_top_withheld(true, 0);
    test_top_withheld(true, ARENA + 32 * 4096);
    test_top_withheld(false, MAIN + 33 * 4096);
    test_top_withheld(false, 0);
    test_top_of_huge_pages(4 * 4096, 8);
    test_top_of_huge_pages(8 * 4096, 8);
    test_top_of_huge_pages(16 * 4096, 0);
    test_top_of_huge_pages(3 * 4096, 9); // no power of two: taken for none
    test_merged(false);
    test_merged(true);
    return 0;
}
