// SPDX-License-Identifier: MIT
// Mmapped chunks, which no list holds: where they are found, where they are not searched for, and what mp_ has to say.
#include "support/found.h"

enum { PAGE = 4096, GRANULE = MOCK_GRANULE };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t MAPS = UINT64_C(0x190000000000);

struct scene {
    struct mock *m;
    uint32_t libc;
    struct found *f;
};

static struct scene with_maps(const char *release, uint64_t length)
{
    struct scene s = {.m = mock_new(PAGE)};
    s.libc = mock_libc(s.m, release);
    struct mock_arena main = mock_main(s.m, s.libc, MAIN, GRANULE);
    mock_chunk(&main, 64);
    mock_top(&main);
    mock_map(s.m, MAPS, length, "");
    return s;
}

static void end(struct scene *s)
{
    found_free(s->f);
    mock_free(s->m);
}

static const struct as_mmapped *mmapped(const struct scene *s, size_t i)
{
    CHECK(i < s->f->heaps.mmapped.count);
    return &s->f->heaps.mmapped.items[i];
}

// Maps side by side, in one mapping or in several; and one of a page.
static void test_neighbours(const char *release, bool split)
{
    struct scene s = with_maps(release, 5 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS, 2 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + 2 * GRANULE, PAGE);
    mock_mmapped(s.m, s.libc, MAPS + 2 * GRANULE + PAGE, 3 * GRANULE - PAGE);
    if (split)
        mock_split(s.m, MAPS + GRANULE);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.mmapped.count, 3);
    uint64_t extra = (uint64_t)mock_libc_at(s.m, s.libc)->layout.heap.mmap_extra;
    const uint64_t starts[] = {MAPS, MAPS + 2 * GRANULE, MAPS + 2 * GRANULE + PAGE, MAPS + 5 * GRANULE};
    for (size_t i = 0; i < 3; i++) {
        CHECK(mmapped(&s, i)->map_start == starts[i] && mmapped(&s, i)->map_end == starts[i + 1]);
        CHECK(mmapped(&s, i)->chunk == starts[i] && mmapped(&s, i)->class == AS_CHUNK_IN_USE);
        CHECK_EQUAL(mmapped(&s, i)->size, starts[i + 1] - starts[i] - extra);
        CHECK_EQUAL(mmapped(&s, i)->counted, starts[i + 1] - starts[i]);
    }
    end(&s);
}

// aligned_alloc puts the chunk somewhere inside; realloc may move it with its map, to where it is aligned no more.
static void test_aligned(const char *release, uint64_t start, uint64_t lead)
{
    struct scene s = with_maps(release, 16 * GRANULE);
    mock_mmapped_aligned(s.m, s.libc, MAPS + start, 8 * GRANULE, lead);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.mmapped.count, 1);
    CHECK(mmapped(&s, 0)->map_start == MAPS + start && mmapped(&s, 0)->chunk == MAPS + start + lead);
    CHECK_EQUAL(mmapped(&s, 0)->map_end, MAPS + start + 8 * GRANULE);
    end(&s);
}

// An aligned chunk whose header is damaged: the header that the map was made with still says how long it is.
static void test_aligned_damaged(uint64_t prev_size, uint64_t size)
{
    struct scene s = with_maps("2.36", 16 * GRANULE);
    mock_mmapped_aligned(s.m, s.libc, MAPS, 8 * GRANULE, PAGE - 16);
    mock_poke(s.m, MAPS + PAGE - 16, PAGE - 16 + prev_size);
    mock_poke(s.m, MAPS + PAGE - 8, (8 * GRANULE - (PAGE - 16) + size) | 2);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK(s.f->heaps.mmapped.count == 1 && mmapped(&s, 0)->chunk == MAPS);
    CHECK_EQUAL(mmapped(&s, 0)->map_end, MAPS + 8 * GRANULE);
    end(&s);
}

// The one chunk's header damaged: it is not found, and mp_ tells that one is missing.
static void test_damaged(uint64_t prev_size, uint64_t size)
{
    struct scene s = with_maps("2.36", 4 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS, GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + GRANULE, GRANULE);
    mock_poke(s.m, MAPS, prev_size);
    mock_poke(s.m, MAPS + 8, size);
    s.f = found_all(s.m);
    CHECK_FAULT(s.f, "differ from mp_.n_mmaps and mp_.mmapped_mem");
    CHECK(s.f->heaps.mmapped.count == 1 && mmapped(&s, 0)->map_start == MAPS + GRANULE);
    end(&s);
}

static void test_counts(void)
{
    for (int damage = 0; damage < 4; damage++) {
        struct scene s = with_maps("2.36", 4 * GRANULE);
        const struct as_par_layout *at = &mock_libc_at(s.m, s.libc)->layout.par;
        mock_mmapped(s.m, s.libc, MAPS, GRANULE);
        mock_mmapped(s.m, s.libc, MAPS + 2 * GRANULE, GRANULE);
        if (damage == 1)
            mock_poke32(s.m, mock_mp(s.m, s.libc, at->n_mmaps), 3);
        if (damage == 2)
            mock_poke(s.m, mock_mp(s.m, s.libc, at->mmapped_mem), 2 * GRANULE + 16);
        if (damage == 3)
            mock_poke(s.m, mock_mp(s.m, s.libc, at->mmapped_mem), 2 * GRANULE - 16);
        s.f = found_all(s.m);
        CHECK_EQUAL(s.f->heaps.mmapped.count, 2);
        CHECK_EQUAL(found_faults(s.f, "differ from mp_"), damage != 0);
        end(&s);
    }
}

// 2.43 and 2.44 count 16 bytes too much for each realloc.
static void test_drift(const char *release, uint64_t drift, bool believed)
{
    struct scene s = with_maps(release, 4 * GRANULE);
    const struct as_par_layout *at = &mock_libc_at(s.m, s.libc)->layout.par;
    mock_mmapped(s.m, s.libc, MAPS, GRANULE);
    mock_poke(s.m, mock_mp(s.m, s.libc, at->mmapped_mem), GRANULE + drift);
    s.f = found_all(s.m);
    CHECK_EQUAL(found_faults(s.f, "differ from mp_"), !believed);
    end(&s);
}

// The header has been written: a page that is neither in memory nor in swap is not read.
static void test_residency(uint8_t residency, bool found)
{
    struct scene s = with_maps("2.36", 4 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + GRANULE, GRANULE);
    mock_pages(s.m, MAPS, MAPS + 4 * GRANULE, 0);
    mock_pages(s.m, MAPS + GRANULE, MAPS + GRANULE + PAGE, residency);
    s.f = found_all(s.m);
    CHECK_EQUAL(s.f->heaps.mmapped.count, found);
    end(&s);
}

static void test_where_not(void (*change)(struct as_mapping *))
{
    struct scene s = with_maps("2.36", 4 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS, GRANULE);
    change((struct as_mapping *)as_target_mapping_at(&s.m->target, MAPS));
    s.f = found_all(s.m);
    CHECK_FAULT(s.f, "differ from mp_");
    CHECK_EQUAL(s.f->heaps.mmapped.count, 0);
    end(&s);
}

static void make_noreserve(struct as_mapping *m)
{
    m->noreserve = true;
}

static void make_read_only(struct as_mapping *m)
{
    m->prot = AS_PROT_READ;
}

static void make_shared(struct as_mapping *m)
{
    m->prot |= AS_PROT_SHARED;
}

static void make_file(struct as_mapping *m)
{
    m->kind = AS_MAP_FILE;
}

static void make_out_of_reach(struct as_mapping *m)
{
    m->out_of_reach = true;
}

static void make_huge(struct as_mapping *m)
{
    m->kernel_page_size = UINT64_C(1) << 45; // begins on no such page
}

// A program may protect a part of its block: the map goes on.
static void test_protected_part(void)
{
    struct scene s = with_maps("2.36", 4 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS, 3 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + 3 * GRANULE, GRANULE);
    mock_split(s.m, MAPS + GRANULE);
    mock_split(s.m, MAPS + 2 * GRANULE);
    ((struct as_mapping *)as_target_mapping_at(&s.m->target, MAPS + GRANULE))->prot = 0;
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK(s.f->heaps.mmapped.count == 2 && mmapped(&s, 0)->map_end == MAPS + 3 * GRANULE);
    end(&s);
}

// The kernel gives no part of a huge page.
static void test_huge_page(void)
{
    const uint64_t huge = 2 << 20;
    struct scene s = with_maps("2.36", 2 * huge);
    ((struct as_mapping *)as_target_mapping_at(&s.m->target, MAPS))->kernel_page_size = huge;
    mock_poke(s.m, mock_mp(s.m, s.libc, mock_libc_at(s.m, s.libc)->layout.par.hp_pagesize), huge);
    mock_mmapped(s.m, s.libc, MAPS, huge + PAGE);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(mmapped(&s, 0)->counted, huge + PAGE);
    CHECK_EQUAL(mmapped(&s, 0)->map_end, MAPS + 2 * huge);
    end(&s);
}

// Nothing is searched for where mp_ counts nothing.
static void test_none(void)
{
    struct scene s = with_maps("2.36", 4 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS, GRANULE);
    const struct as_par_layout *at = &mock_libc_at(s.m, s.libc)->layout.par;
    mock_poke32(s.m, mock_mp(s.m, s.libc, at->n_mmaps), 0);
    mock_poke(s.m, mock_mp(s.m, s.libc, at->mmapped_mem), 0);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.mmapped.count, 0);
    end(&s);
}

// A page of the program's own that resembles a map is left out: mp_ says how long those are that are.
static void test_similar_chunk(uint64_t length, bool sure)
{
    struct scene s = with_maps("2.36", 16 * GRANULE);
    const struct as_par_layout *at = &mock_libc_at(s.m, s.libc)->layout.par;
    mock_mmapped(s.m, s.libc, MAPS, 2 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + 2 * GRANULE, 4 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + 8 * GRANULE, length); // surrounded by the program's memory
    mock_poke32(s.m, mock_mp(s.m, s.libc, at->n_mmaps), 2);
    mock_poke(s.m, mock_mp(s.m, s.libc, at->mmapped_mem), 6 * GRANULE);
    s.f = found_all(s.m);
    CHECK_EQUAL(s.f->heaps.mmapped.count, 2);
    CHECK(mmapped(&s, 0)->map_start == MAPS && mmapped(&s, 1)->map_start == MAPS + 2 * GRANULE);
    CHECK_EQUAL(found_faults(s.f, "the choice could be wrong"), !sure);
    CHECK_EQUAL(s.f->heaps.faults.count, !sure);
    end(&s);
}

// Pages of another allocator: no map begins there, and a map may have such pages in it.
static void test_foreign(void)
{
    struct scene s = with_maps("2.36", 16 * GRANULE);
    const struct as_par_layout *at = &mock_libc_at(s.m, s.libc)->layout.par;
    struct as_span spans[] = {{MAPS + 3 * GRANULE, MAPS + 4 * GRANULE},
                              {MAPS + 4 * GRANULE, MAPS + 6 * GRANULE},
                              {MAPS + 7 * GRANULE, MAPS + 8 * GRANULE}};
    const as_span_vec foreign = {.items = spans, .count = 3};
    mock_mmapped(s.m, s.libc, MAPS, 2 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + 4 * GRANULE, 2 * GRANULE); // it only seems so
    mock_mmapped(s.m, s.libc, MAPS + 6 * GRANULE, 3 * GRANULE);
    mock_mmapped(s.m, s.libc, MAPS + 12 * GRANULE, PAGE);
    mock_poke32(s.m, mock_mp(s.m, s.libc, at->n_mmaps), 3);
    mock_poke(s.m, mock_mp(s.m, s.libc, at->mmapped_mem), 5 * GRANULE + PAGE);
    s.m->foreign = &foreign;
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.mmapped.count, 3);
    CHECK(mmapped(&s, 0)->map_start == MAPS && mmapped(&s, 1)->map_start == MAPS + 6 * GRANULE);
    CHECK(mmapped(&s, 1)->map_end == MAPS + 9 * GRANULE && mmapped(&s, 2)->map_start == MAPS + 12 * GRANULE);
    end(&s);
}

// Blocks of huge pages that realloc made shorter stay when they are freed: which those are, their lengths tell.
static void test_forgotten(uint64_t other, bool known)
{
    const uint64_t huge = 2 << 20;
    struct scene s = with_maps("2.36", 6 * huge);
    const struct as_par_layout *at = &mock_libc_at(s.m, s.libc)->layout.par;
    ((struct as_mapping *)as_target_mapping_at(&s.m->target, MAPS))->kernel_page_size = huge;
    mock_poke(s.m, mock_mp(s.m, s.libc, at->hp_pagesize), huge);
    mock_mmapped(s.m, s.libc, MAPS, huge + PAGE);
    mock_mmapped(s.m, s.libc, MAPS + 2 * huge, huge + other);
    mock_mmapped(s.m, s.libc, MAPS + 4 * huge, 2 * huge);
    mock_poke32(s.m, mock_mp(s.m, s.libc, at->n_mmaps), 2);
    mock_poke(s.m, mock_mp(s.m, s.libc, at->mmapped_mem), 3 * huge + other);
    s.f = found_all(s.m);
    CHECK_CLEAN(s.f);
    CHECK(s.f->heaps.munmap_failed == 1 && s.f->heaps.munmap_failed_ambiguous == !known);
    CHECK_EQUAL(s.f->heaps.munmap_failed_bytes, huge + PAGE);
    CHECK_EQUAL(s.f->heaps.mmapped.count, known ? 2 : 3);
    CHECK_EQUAL(mmapped(&s, 0)->map_start, known ? MAPS + 2 * huge : MAPS);
    end(&s);
}

// A heap lies in the middle of a mapping: what is in it is none of theirs.
static void test_beside_heap(void)
{
    struct mock *m = mock_new(PAGE);
    struct scene s = {.m = m, .libc = mock_libc(m, "2.36")};
    mock_map(m, MAIN, 6 * GRANULE, "");
    struct mock_arena main = mock_main(m, s.libc, MAIN + 2 * GRANULE, 2 * GRANULE);
    uint64_t chunk = mock_chunk(&main, GRANULE - 16) + 16;
    mock_poke(m, MAIN + 3 * GRANULE, 0); // within the program's block
    mock_poke(m, MAIN + 3 * GRANULE + 8, PAGE | 2);
    CHECK(chunk < MAIN + 3 * GRANULE);
    mock_chunk(&main, 4 * PAGE);
    mock_top(&main);
    mock_mmapped(m, s.libc, MAIN, 2 * GRANULE);
    mock_mmapped(m, s.libc, MAIN + 4 * GRANULE, 2 * GRANULE);
    s.f = found_heaps(m);
    CHECK_CLEAN(s.f);
    CHECK_EQUAL(s.f->heaps.mmapped.count, 2);
    end(&s);
}

int main(void)
{
    static const char *const releases[] = {"2.17", "2.36", "2.42", "2.43", "2.44"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        test_neighbours(releases[i], false);
        test_neighbours(releases[i], true);
        test_aligned(releases[i], 0, 48);
        test_aligned(releases[i], 0, PAGE - 16);
        test_aligned(releases[i], PAGE, GRANULE - PAGE - 16);
        test_aligned(releases[i], PAGE, 2 * GRANULE - 16); // moved: no multiple of its alignment any more
    }
    test_aligned_damaged(PAGE, 0);
    test_aligned_damaged(0, 16);
    test_aligned_damaged(0, 16 * GRANULE);
    test_damaged(16, GRANULE | 2);
    test_damaged(0, GRANULE);
    test_damaged(0, GRANULE | 3);
    test_damaged(0, (GRANULE + 16) | 2);
    test_damaged(0, 2); // no size at all
    test_damaged(0, (UINT64_C(1) << 40) | 2);
    test_counts();
    test_drift("2.43", 16, true);
    test_drift("2.43", PAGE, true);
    test_drift("2.43", 8, false);
    test_drift("2.42", 16, false);
    test_residency(AS_RES_PRESENT, true);
    test_residency(AS_RES_SWAPPED, true);
    test_residency(AS_RES_UNKNOWN, true);
    test_residency(AS_RES_ZERO, false);
    test_where_not(make_noreserve);
    test_where_not(make_read_only);
    test_where_not(make_shared);
    test_where_not(make_file);
    test_where_not(make_out_of_reach);
    test_where_not(make_huge);
    test_protected_part();
    test_huge_page();
    test_none();
    test_foreign();
    test_similar_chunk(GRANULE, true);
    test_similar_chunk(6 * GRANULE, true);
    test_similar_chunk(2 * GRANULE, false); // as long as one of malloc's
    test_forgotten(2 * PAGE, true);
    test_forgotten(PAGE, false);
    test_beside_heap();
    return 0;
}
