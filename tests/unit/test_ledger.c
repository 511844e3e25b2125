// SPDX-License-Identifier: MIT
// Each resident byte in one row, whatever the kernel says of its page; pins, tails, and what is not malloc's.
#include "support/counted.h"

enum { PAGE = 4096, PAGES = 32, LENGTH = PAGES * PAGE };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t MAPS = UINT64_C(0x190000000000);
static const uint64_t OTHERS = UINT64_C(0x1a0000000000);

struct scene {
    struct mock *m;
    struct mock_arena a;
    struct counted *c;
};

static struct scene begin(void)
{
    struct scene s = {.m = mock_new(PAGE)};
    mock_libc(s.m, "2.36");
    s.a = mock_main(s.m, 0, MAIN, LENGTH);
    return s;
}

static void use_up_to(struct scene *s, uint64_t address)
{
    mock_chunk(&s->a, address - s->a.at);
}

static void count(struct scene *s)
{
    s->c = counted_all(s->m, MAIN + LENGTH, true);
    CHECK_CLEAN(s->c->f);
}

static void end(struct scene *s)
{
    counted_free(s->c);
    mock_free(s->m);
}

// Pages 8 to 15 hold one free chunk, page 16 begins with a cached one and one of a fastbin, and the top with page 20.
static struct scene mixed(void)
{
    struct scene s = begin();
    uint64_t tcache = mock_tcache(&s.a);
    use_up_to(&s, MAIN + 8 * PAGE);
    uint64_t freed = mock_chunk(&s.a, 8 * PAGE);
    uint64_t cached = mock_chunk(&s.a, 96);
    uint64_t fast = mock_chunk(&s.a, 80);
    use_up_to(&s, MAIN + 20 * PAGE);
    mock_top(&s.a);
    mock_unsorted(&s.a, freed);
    mock_cache(s.m, 0, tcache, cached);
    mock_fast(&s.a, fast);
    return s;
}

static void test_rows(void)
{
    struct scene s = mixed();
    count(&s);
    const struct as_ledger *l = counted_process(s.c);
    CHECK_EQUAL(l->metadata, 656);
    CHECK_EQUAL(l->in_use, 12 * PAGE - 656 - 96 - 80);
    CHECK_EQUAL(l->tcache, 96);
    CHECK_EQUAL(l->fastbin, 80);
    CHECK_EQUAL(l->releasable, 7 * PAGE + 11 * PAGE);
    CHECK_EQUAL(l->stranded, 2 * PAGE); // those with the links of the free chunk and the header of the top
    CHECK_EQUAL(l->withheld, 0);
    CHECK_EQUAL(l->in_use + l->tcache + l->fastbin + l->stranded + l->releasable + l->withheld + l->metadata, LENGTH);
    CHECK_EQUAL(l->other_file, 0);
    CHECK_EQUAL(l->other_anon, 0);
    CHECK_EQUAL(l->file_copies, MOCK_GRANULE); // what libc's data has been written to
    CHECK_EQUAL(as_ledger_resident(&s.c->store.totals.ledger), s.m->target.counts.rss);
    CHECK_EQUAL(counted_warnings(s.c, AS_WARN_SUM), 0);
    end(&s);
}

// What is not resident: free, in use, swapped; the zero page is none of Rss's.
static void test_absent(uint8_t residency)
{
    struct scene s = mixed();
    bool swapped = residency & AS_RES_SWAPPED;
    mock_pages(s.m, MAIN + 7 * PAGE, MAIN + 17 * PAGE, residency);
    mock_pages(s.m, MAIN + 30 * PAGE, MAIN + 32 * PAGE, residency);
    count(&s);
    const struct as_ledger *l = counted_process(s.c);
    // Page 7 is in use, 8 to 15 free, 16 mostly in use, 30 and 31 the top's.
    uint64_t used = PAGE + PAGE - 96 - 80;
    CHECK_EQUAL(l->untouched, swapped ? 0 : used + 2 * PAGE);
    CHECK_EQUAL(l->returned, swapped ? 0 : 8 * PAGE + 96 + 80);
    CHECK_EQUAL(l->swapped_in_use, swapped ? used : 0);
    CHECK_EQUAL(l->swapped_free, swapped ? 8 * PAGE + 96 + 80 + 2 * PAGE : 0);
    CHECK_EQUAL(l->malloc_trim_swap, swapped ? 9 * PAGE : 0);
    CHECK_EQUAL(l->deep_trim_swap, swapped ? 9 * PAGE : 0);
    CHECK_EQUAL(l->releasable, 9 * PAGE);
    CHECK_EQUAL(as_ledger_resident(&s.c->store.totals.ledger), s.m->target.counts.rss);
    CHECK_EQUAL(counted_page(s.c, MAIN + 7 * PAGE)->state, swapped ? AS_PAGE_SWAPPED : AS_PAGE_UNTOUCHED);
    CHECK_EQUAL(counted_page(s.c, MAIN + 9 * PAGE)->state, swapped ? AS_PAGE_SWAPPED : AS_PAGE_RETURNED);
    CHECK_EQUAL(counted_page(s.c, MAIN + 31 * PAGE)->state, swapped ? AS_PAGE_SWAPPED : AS_PAGE_UNTOUCHED);
    end(&s);
}

// A page that the kernel says nothing of makes the rows unknown, never wrong.
static void test_unknown(bool refused)
{
    struct scene s = mixed();
    if (refused)
        s.m->refused = MAIN + 10 * PAGE;
    else
        mock_pages(s.m, MAIN + 10 * PAGE, MAIN + 11 * PAGE, AS_RES_UNKNOWN);
    s.c = counted_all(s.m, MAIN + LENGTH, true);
    const struct as_ledger *l = counted_process(s.c);
    CHECK(l->in_use == AS_UNKNOWN && l->releasable == AS_UNKNOWN && l->malloc_trim == AS_UNKNOWN &&
          l->returned == AS_UNKNOWN && counted_arena(s.c, 0)->stranded == AS_UNKNOWN);
    CHECK_EQUAL(counted_page(s.c, MAIN + 10 * PAGE)->state, AS_PAGE_UNKNOWN);
    CHECK_EQUAL(counted_warnings(s.c, AS_WARN_RESIDENCY), refused);
    end(&s);
}

// Locked memory stays, whatever is free; but brk takes what it takes.
static void test_locked(void)
{
    struct scene s = mixed();
    ((struct as_mapping *)as_target_mapping_at(&s.m->target, MAIN))->locked = true;
    count(&s);
    const struct as_ledger *l = counted_arena(s.c, 0);
    CHECK_EQUAL(l->releasable, 11 * PAGE); // of the top
    CHECK_EQUAL(l->stranded, 9 * PAGE);
    CHECK(l->withheld == 0 && l->deep_trim == l->releasable);
    end(&s);
}

static void test_hugetlb(void)
{
    struct scene s = mixed();
    ((struct as_mapping *)as_target_mapping_at(&s.m->target, MAIN))->hugetlb = LENGTH;
    ((struct as_mapping *)as_target_mapping_at(&s.m->target, MAIN))->rss = 0;
    s.m->target.counts.rss -= LENGTH;
    count(&s);
    const struct as_ledger *l = counted_arena(s.c, 0);
    CHECK(l->hugetlb == LENGTH && l->in_use == 0 && l->releasable == 0 && l->stranded == 0 && l->malloc_trim == 0);
    end(&s);
}

// A page that one chunk in use keeps, all else on it free: a pin. `second`: another one in use is there, too.
static void test_pin(int second, uint64_t pages)
{
    struct scene s = begin();
    uint64_t tcache = mock_tcache(&s.a);
    use_up_to(&s, MAIN + 2 * PAGE);
    uint64_t before = mock_chunk(&s.a, PAGE + 512);
    mock_chunk(&s.a, pages == 2 ? PAGE : 112);
    uint64_t between = second ? mock_chunk(&s.a, 96) : 0;
    uint64_t behind = mock_chunk(&s.a, MAIN + 6 * PAGE - s.a.at);
    use_up_to(&s, MAIN + LENGTH - 512);
    mock_top(&s.a);
    mock_bin(&s.a, before);
    mock_bin(&s.a, behind);
    if (second == 2)
        mock_cache(s.m, 0, tcache, between);
    if (second == 3)
        mock_fast(&s.a, between);
    count(&s);
    struct as_size_record size = counted_size(s.c, pages == 2 ? PAGE : 112);
    CHECK_EQUAL(size.pin_count, second ? 0 : 1);
    CHECK_EQUAL(size.pin_pages, second ? 0 : pages);
    CHECK_EQUAL(size.pin_stranded, second ? 0 : pages == 2 ? PAGE : PAGE - 112);
    CHECK_EQUAL(counted_page(s.c, MAIN + 3 * PAGE)->state, second ? AS_PAGE_USED : AS_PAGE_PINNED);
    CHECK_EQUAL(counted_page(s.c, MAIN + 4 * PAGE)->state, pages == 2 ? AS_PAGE_PINNED : AS_PAGE_RELEASABLE);
    end(&s);
}

// A page with no more than the pin is the pin's alone, and keeps nothing else.
static void test_no_pin(void)
{
    struct scene s = begin();
    use_up_to(&s, MAIN + 2 * PAGE);
    mock_chunk(&s.a, PAGE);
    uint64_t absent = mock_chunk(&s.a, 512);
    mock_chunk(&s.a, PAGE - 512 - 16);
    use_up_to(&s, MAIN + LENGTH - 512);
    mock_top(&s.a);
    mock_bin(&s.a, absent);
    mock_pages(s.m, MAIN + 3 * PAGE, MAIN + 4 * PAGE, 0);
    count(&s);
    CHECK(counted_size(s.c, PAGE).pin_count == 0 && counted_size(s.c, PAGE - 512 - 16).pin_count == 0);
    CHECK_EQUAL(counted_page(s.c, MAIN + 2 * PAGE)->state, AS_PAGE_USED);
    end(&s);
}

// The last chunk in use of a heap, with a page or more free below it.
static void test_tail(uint64_t below, bool counted, bool cached_behind)
{
    struct scene s = begin();
    uint64_t tcache = mock_tcache(&s.a);
    use_up_to(&s, MAIN + 4 * PAGE);
    uint64_t freed = mock_chunk(&s.a, below);
    mock_chunk(&s.a, 144);
    uint64_t cached = cached_behind ? mock_chunk(&s.a, 96) : 0;
    mock_top(&s.a);
    mock_bin(&s.a, freed);
    if (cached_behind)
        mock_cache(s.m, 0, tcache, cached);
    count(&s);
    CHECK_EQUAL(counted_size(s.c, 144).tail_count, counted);
    CHECK_EQUAL(counted_size(s.c, 144).tail_bytes, counted ? below : 0);
    end(&s);
}

// A map's lead and its rest are slack; of a block that was freed into a tcache nothing is in use.
static void test_mmapped(void)
{
    struct scene s = begin();
    mock_chunk(&s.a, 64);
    mock_top(&s.a);
    mock_map(s.m, MAPS, 4 * MOCK_GRANULE, "");
    mock_mmapped(s.m, 0, MAPS, 2 * MOCK_GRANULE);
    mock_mmapped_aligned(s.m, 0, MAPS + 2 * MOCK_GRANULE, 2 * MOCK_GRANULE, PAGE - 16);
    mock_pages(s.m, MAPS + PAGE, MAPS + 3 * PAGE, 0);
    count(&s);
    const struct as_ledger *l = counted_process(s.c);
    CHECK_EQUAL(l->mmapped_in_use, 4 * MOCK_GRANULE - (PAGE - 16) - 2 * PAGE);
    CHECK_EQUAL(l->mmapped_slack, PAGE - 16);
    CHECK_EQUAL(l->untouched, 2 * PAGE);
    CHECK(l->metadata == 0 && s.c->store.totals.chunks.mmapped.count == 2);
    CHECK_EQUAL(as_ledger_resident(&s.c->store.totals.ledger), s.m->target.counts.rss);
    end(&s);
}

// What is not malloc's, by the kind of its mapping; a stack is where a stack pointer leads, but for one within a heap.
static void test_others(bool all_found)
{
    struct scene s = {.m = mock_new(PAGE)};
    mock_map(s.m, MAIN, LENGTH + MOCK_GRANULE, "[heap]"); // the last part of it is not malloc's
    mock_libc(s.m, "2.36");
    s.a = mock_main(s.m, 0, MAIN, LENGTH);
    mock_chunk(&s.a, 64);
    mock_top(&s.a);
    mock_map(s.m, OTHERS, MOCK_GRANULE, "");
    mock_map(s.m, OTHERS + MOCK_GRANULE, MOCK_GRANULE, "[stack]");
    mock_map(s.m, OTHERS + 2 * MOCK_GRANULE, 2 * MOCK_GRANULE, "/lib/file.so")->anonymous = PAGE;
    struct as_mapping *shared = mock_map(s.m, OTHERS + 4 * MOCK_GRANULE, MOCK_GRANULE, "");
    shared->kind = AS_MAP_SHMEM;
    shared->anonymous = 0;
    mock_thread(s.m, 1, 0, s.a.address);
    mock_thread(s.m, 2, 0, 0);
    s.m->target.threads.items[1].sp = MAIN + 128; // a coroutine
    s.c = counted_all(s.m, MAIN + LENGTH, all_found);
    const struct as_ledger *l = counted_process(s.c);
    CHECK_EQUAL(l->stacks, 2 * MOCK_GRANULE);
    // A plain mapping, the second thread's block, what is behind the heap; and in files: libc's data, and a page.
    uint64_t plain = 3 * MOCK_GRANULE;
    uint64_t of_files = MOCK_GRANULE + PAGE;
    CHECK_EQUAL(l->other_anon, all_found ? plain : 0);
    CHECK_EQUAL(l->file_copies, of_files);
    CHECK_EQUAL(l->unknown, all_found ? 0 : plain);
    CHECK_EQUAL(l->other_file, 2 * MOCK_GRANULE - PAGE);
    CHECK_EQUAL(l->other_shmem, MOCK_GRANULE);
    CHECK_EQUAL(as_ledger_resident(&s.c->store.totals.ledger), s.m->target.counts.rss);
    CHECK_EQUAL(counted_warnings(s.c, AS_WARN_SUM), 0);
    end(&s);
}

// More of a part of a heap is resident than the kernel counts: that is said, and why.
static void test_sum(uint32_t prot, const char *why)
{
    struct scene s = begin();
    use_up_to(&s, MAIN + 24 * PAGE);
    mock_top(&s.a);
    mock_split(s.m, MAIN + 8 * PAGE);
    mock_split(s.m, MAIN + 16 * PAGE);
    struct as_mapping *m = (struct as_mapping *)as_target_mapping_at(&s.m->target, MAIN + 8 * PAGE);
    m->rss -= PAGE;
    m->prot = prot;
    s.c = counted_all(s.m, MAIN + LENGTH, true);
    CHECK(counted_warnings(s.c, AS_WARN_SUM) >= 1);
    const struct as_store *store = &s.c->store;
    const char *text = as_strings_at(&store->strings, store->warnings.items[0].text);
    CHECK(strstr(text, why), "%s", text);
    end(&s);
}

// Bytes that the walk has passed over are unknown, and stand in no other row.
static void test_torn(void)
{
    struct scene s = begin();
    uint64_t chunks[40];
    for (int i = 0; i < 40; i++)
        chunks[i] = mock_chunk(&s.a, 1024);
    mock_top(&s.a);
    mock_poke(s.m, chunks[20] + 8, 24 | 1);
    s.c = counted_all(s.m, MAIN + LENGTH, true);
    const struct as_ledger *l = counted_arena(s.c, 0);
    CHECK_EQUAL(l->unknown, 1024);
    CHECK_EQUAL(l->in_use, 39 * 1024);
    end(&s);
}

int main(void)
{
    test_rows();
    test_absent(0);
    test_absent(AS_RES_ZERO);
    test_absent(AS_RES_SWAPPED);
    test_unknown(true);
    test_unknown(false);
    test_locked();
    test_hugetlb();
    for (int second = 0; second < 4; second++)
        test_pin(second, 1);
    test_pin(0, 2);
    test_no_pin();
    test_tail(PAGE, true, false);
    test_tail(PAGE - 16, false, false);
    test_tail(3 * PAGE, true, false);
    test_tail(3 * PAGE, false, true);
    test_mmapped();
    test_others(true);
    test_others(false);
    test_sum(AS_PROT_READ | AS_PROT_WRITE, "changed during the snapshot");
    test_sum(0, "huge pages of memory that may not be accessed");
    test_torn();
    return 0;
}
