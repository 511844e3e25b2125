// SPDX-License-Identifier: MIT
// A trim of a malloc that is not this program's: arenas in mock memory, which is real memory, given back to the real kernel.
// What a trim returns is what the ledger forecast; nothing in use changes; the bins stay sound; and of a heap in which a word is
// wrong nothing is touched.
#include "support/counted.h"
#include "trim/trim.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILL = 0x6b, SIZES = 5, EACH = 9 };

static const uint64_t MAIN = UINT64_C(0x100000000000);
static const uint64_t ARENA = UINT64_C(0x180000000000);

struct scene {
    struct mock *m;
    uint64_t page, start, length;
    struct mock_arena a;
    uint64_t fast[6];
    uint8_t *before; // the arena's bytes
};

static uint64_t fill_chunk(struct mock_arena *a, uint64_t size)
{
    uint64_t chunk = mock_chunk(a, size);
    memset((void *)(uintptr_t)(chunk + 16), FILL, size - 16);
    return chunk;
}

// A thread arena with free chunks of several sizes, some of them alike, in the unsorted, small and large bins; with fastbins
// beside free chunks, in use on both sides, and below the top.
static struct scene thread_arena(const char *release)
{
    struct scene s = {.m = mock_new(0), .start = ARENA};
    uint64_t freed[SIZES][EACH];
    uint32_t libc = mock_libc(s.m, release);
    s.page = s.m->target.page_size;
    s.length = 640 * s.page;
    s.m->kernel_residency = true;
    struct mock_arena main = mock_main(s.m, libc, MAIN, MOCK_GRANULE);
    mock_chunk(&main, 64);
    mock_poke32(s.m, main.address + (uint64_t)mock_libc_at(s.m, libc)->layout.state.flags, 2); // it came from mmap
    mock_top(&main);
    s.a = mock_arena(s.m, libc, ARENA, s.length);
    const uint64_t sizes[SIZES] = {3 * s.page, 512, 4 * s.page + 48, 5 * s.page - 16, 40 * s.page};
    for (int k = 0; k < EACH; k++)
        for (int i = 0; i < SIZES; i++) {
            freed[i][k] = fill_chunk(&s.a, sizes[i]);
            fill_chunk(&s.a, 1200 - 16 * (uint64_t)i);
        }
    bool has_fastbins = mock_libc_at(s.m, libc)->layout.state.fastbin_count > 0;
    uint64_t beside = fill_chunk(&s.a, 3 * s.page);
    s.fast[0] = fill_chunk(&s.a, 64); // behind a free one
    fill_chunk(&s.a, 64);
    s.fast[1] = fill_chunk(&s.a, 48); // before a free one
    uint64_t behind = fill_chunk(&s.a, 3 * s.page + 512);
    s.fast[2] = fill_chunk(&s.a, 80); // and between two
    uint64_t last = fill_chunk(&s.a, 2 * s.page);
    fill_chunk(&s.a, 64);
    s.fast[3] = fill_chunk(&s.a, 48); // alone
    fill_chunk(&s.a, 64);
    s.fast[4] = fill_chunk(&s.a, 48); // two before the top
    s.fast[5] = fill_chunk(&s.a, 64);
    // All of it is in memory: what a test reads would be from then on.
    memset((void *)(uintptr_t)(s.a.at + 16), FILL, s.a.end - s.a.at - 16);
    mock_top(&s.a);
    for (int k = 0; k < EACH; k++)
        for (int i = 0; i < SIZES; i++) {
            if (i == 0)
                mock_unsorted(&s.a, freed[i][k]);
            else
                mock_bin(&s.a, freed[i][k]);
        }
    mock_bin(&s.a, beside);
    mock_bin(&s.a, behind);
    mock_unsorted(&s.a, last);
    for (int i = 0; i < 6 && has_fastbins; i++)
        mock_fast(&s.a, s.fast[i]);
    return s;
}

static void end(struct scene *s)
{
    free(s->before);
    mock_free(s->m);
}

static void save(struct scene *s)
{
    s->before = malloc(s->length);
    CHECK(s->before);
    memcpy(s->before, (const void *)(uintptr_t)s->start, s->length);
}

static void check_untouched(const struct scene *s)
{
    CHECK(memcmp(s->before, (const void *)(uintptr_t)s->start, s->length) == 0);
}

// All that was in use has its bytes; free chunks may have lost theirs.
static void check_in_use(const struct scene *s, const struct found *f)
{
    for (size_t i = 0; i < f->count; i++) {
        struct as_chunk c = f->chunks[i];
        if (as_chunk_class_of(c) == AS_CHUNK_IN_USE && c.address >= s->start && c.address < s->start + s->length)
            CHECK(memcmp(s->before + (c.address + 16 - s->start), (const void *)(uintptr_t)(c.address + 16),
                         as_chunk_size(c) - 24) == 0,
                  "the chunk at %#llx", (unsigned long long)c.address);
    }
}

static struct as_ledger count(struct scene *s, size_t arena)
{
    struct counted *c = counted_all(s->m, s->start + s->length, true);
    struct as_ledger l = *counted_arena(c, arena);
    CHECK_CLEAN(c->f);
    counted_free(c);
    return l;
}

static struct as_trim_arena trim(struct scene *s, struct as_trim_request r, bool forecast, char *note)
{
    struct as_error err = {0};
    struct as_trim_outcome out;
    struct as_target *t = &s->m->target;
    r.only = s->a.address;
    t->kind = AS_TARGET_SELF;
    t->stop.active = false;
    CHECK((forecast ? as_trim_forecast : as_trim_run)(t, &s->m->malloc, &r, &out, &err), "%s", err.text);
    t->kind = AS_TARGET_PROCESS;
    t->stop.active = true;
    CHECK_EQUAL(out.arenas.count, 1);
    struct as_trim_arena arena = out.arenas.items[0];
    snprintf(note, sizeof out.note, "%s", out.note);
    CHECK_EQUAL(mock_peek(s->m, s->a.address) & UINT32_MAX, 0); // the lock is given back
    as_trim_free(&out);
    return arena;
}

// A forecast, then a trim. With a bound the lock is opened again and again, and lists are turned round.
static void test_trim(const char *release, bool deep, uint64_t max_hold_ns)
{
    struct scene s = thread_arena(release);
    struct as_trim_request r = {.deep = deep, .max_hold_ns = max_hold_ns};
    char note[512];
    struct as_ledger before = count(&s, 1);
    uint64_t in_use = before.in_use + 64; // and the main arena's
    CHECK(before.releasable > EACH * 40 * s.page && before.withheld >= 5 * s.page);
    save(&s);
    struct as_trim_arena forecast = trim(&s, r, true, note);
    CHECK(!forecast.skipped && note[0] == '\0', "%s", note);
    CHECK_EQUAL(forecast.releasable, before.releasable);
    CHECK_EQUAL(forecast.withheld, before.withheld);
    if (max_hold_ns == 0)
        check_untouched(&s);

    struct as_trim_arena done = trim(&s, r, false, note);
    CHECK(!done.skipped && note[0] == '\0', "%s", note);
    CHECK_EQUAL(done.releasable, before.releasable);
    CHECK_EQUAL(done.returned, before.releasable + (deep ? before.withheld : 0));
    done = trim(&s, r, false, note); // nothing is left
    CHECK(done.returned == 0 && done.released == 0);
    struct found *f = found_all(s.m);
    CHECK_CLEAN(f);
    CHECK_EQUAL(found_count(f, AS_CHUNK_FASTBIN), 0);
    CHECK_EQUAL(found_bytes(f, AS_CHUNK_IN_USE), in_use);
    check_in_use(&s, f);
    found_free(f);
    end(&s);
}

// What merging made of the chunks in fastbins: chunks of the unsorted bin, or part of the top.
static void test_merged(void)
{
    struct scene s = thread_arena("2.36");
    char note[512];
    uint64_t top = s.fast[4];
    save(&s);
    trim(&s, (struct as_trim_request){0}, false, note);
    struct found *f = found_all(s.m);
    CHECK_CLEAN(f);
    CHECK(f->heaps.arenas.items[1].top == top && found_class(f, top) == AS_CHUNK_TOP);
    CHECK(found_class(f, s.fast[0]) == FOUND_NOTHING); // part of the one before it
    CHECK(found_class(f, s.fast[1]) == AS_CHUNK_BINNED && found_class(f, s.fast[2]) == FOUND_NOTHING);
    CHECK(found_class(f, s.fast[3]) == AS_CHUNK_BINNED);
    found_free(f);
    end(&s);
}

// One word is wrong: the arena is left alone, to the last bit, and the outcome says what was found.
static void test_damaged(uint64_t address, uint64_t value, const char *what)
{
    struct scene s = thread_arena("2.36");
    char note[512];
    mock_poke(s.m, address, value);
    save(&s);
    struct as_trim_arena done = trim(&s, (struct as_trim_request){.deep = true}, true, note);
    CHECK(done.skipped && strstr(note, what), "%s", note);
    check_untouched(&s);
    end(&s);
}

static void test_damage(void)
{
    struct scene s = thread_arena("2.36");
    const struct as_state_layout at = mock_libc_at(s.m, 0)->layout.state;
    uint64_t state = s.a.address;
    uint64_t bins = state + (uint64_t)at.bins;
    uint64_t unsorted = mock_peek(s.m, bins);   // the first one
    uint64_t oldest = mock_peek(s.m, bins + 8); // and the last
    uint64_t page = s.page, top = s.a.at, length = s.length;
    uint64_t top_size = mock_peek(s.m, top + 8);
    uint64_t fast = s.fast[3];
    uint64_t lone = s.fast[0];
    uint64_t joined = s.fast[2]; // before it stands the footer of a free chunk
    end(&s);
    test_damaged(top + 8, top_size + 16, "the top does not end with its heap");
    test_damaged(top + 8, top_size - 16, "the top does not end with its heap");
    test_damaged(joined, 3 * page + 528, "the free chunk after a fastbin chunk is in no list");
    test_damaged(top + 8, top_size | 4, "the top's size cannot be right");
    test_damaged(top + 8, (length + page) | 1, "the top's size cannot be right");
    test_damaged(ARENA, MAIN, "a heap's header belongs to no heap of the arena");
    test_damaged(ARENA + 24, 16, "a heap's header belongs to no heap of the arena");
    test_damaged(ARENA + 8, ARENA, "the first heap has one before it");
    test_damaged(state + (uint64_t)at.fastbins + 8, fast + 16,
                 "a fastbin's list leads to something other than its chunks");
    test_damaged(fast + 8, 48 | 1,
                 "a fastbin's list leads to something other than its chunks"); // without NON_MAIN_ARENA
    test_damaged(lone - 3 * page + 16, top, "the free chunk before a fastbin chunk is in no list");
    test_damaged(lone + 64 + 8, 64 | 4, "a chunk of a fastbin is free according to the next chunk");
    test_damaged(unsorted + 24, unsorted, "the unsorted bin is not linked both ways");
    test_damaged(oldest + 16, unsorted, "a bin's list leads to something other than a free chunk");
    test_damaged(oldest + 8, (3 * page) | 5, "a bin's list leads to something other than a free chunk");
    test_damaged(oldest + 3 * page, 3 * page - 16, "a chunk in a bin is not free according to the next chunk");
    test_damaged(oldest + 3 * page + 8, 1200 | 5, "a chunk in a bin is not free according to the next chunk");
}

// A word that no lock has.
static void test_lock(void)
{
    struct scene s = thread_arena("2.36");
    struct as_trim_outcome out;
    struct as_error err;
    const struct as_trim_request r = {.only = s.a.address};
    mock_poke32(s.m, s.a.address, 7);
    save(&s);
    s.m->target.kind = AS_TARGET_SELF;
    CHECK(as_trim_run(&s.m->target, &s.m->malloc, &r, &out, &err));
    CHECK(out.arenas.items[0].skipped && strstr(out.note, "it stayed locked for longer than 2 s"), "%s", out.note);
    check_untouched(&s);
    as_trim_free(&out);
    end(&s);
}

// The main arena in what brk gave, of this program: the top, to the byte.
static void test_top(uint64_t more, uint64_t cut, bool brk_moved)
{
    free(malloc(128 * 1024 - 256)); // so that this program's own malloc asks for no more meanwhile
    struct scene s = {.m = mock_new(0), .length = 16 * MOCK_GRANULE};
    s.page = s.m->target.page_size;
    uint64_t now = (uint64_t)(uintptr_t)sbrk(0);
    s.start = (now + s.page - 1) & ~(s.page - 1);
    CHECK(sbrk((intptr_t)(s.start + s.length - now)) != (void *)-1);
    madvise((void *)(uintptr_t)s.start, s.length, MADV_NOHUGEPAGE);
    mock_adopt(s.m, s.start, s.length, "[heap]");
    mock_libc(s.m, "2.36");
    s.m->kernel_residency = true;
    s.a = mock_main(s.m, 0, s.start, s.length);
    fill_chunk(&s.a, s.length - 4 * s.page - more);
    memset((void *)(uintptr_t)(s.a.at + 16), FILL, s.a.end - s.a.at - 16);
    mock_top(&s.a);
    char note[512];
    intptr_t foreign = brk_moved ? (intptr_t)s.page : 0; // somebody else calls sbrk
    CHECK(sbrk(foreign) != (void *)-1);
    struct as_trim_arena done = trim(&s, (struct as_trim_request){0}, false, note);
    CHECK((uint64_t)(uintptr_t)sbrk(0) == s.start + s.length + (uint64_t)foreign,
          "this program's malloc has called brk meanwhile");
    CHECK(!done.skipped, "%s", note);
    CHECK_EQUAL(done.releasable, cut * s.page);
    CHECK_EQUAL(done.returned, cut * s.page);
    CHECK_EQUAL(done.withheld, (4 - cut) * s.page);
    CHECK(sbrk(-(intptr_t)(s.start + s.length - now) - foreign) != (void *)-1);
    mock_free(s.m);
}

int main(void)
{
    static const char *const releases[] = {"2.17", "2.27", "2.31", "2.36", "2.42", "2.44"};
    for (size_t i = 0; i < sizeof releases / sizeof *releases; i++) {
        test_trim(releases[i], false, 0);
        test_trim(releases[i], true, 0);
        test_trim(releases[i], true, 1);
    }
    test_merged();
    test_damage();
    test_lock();
    test_top(16, 3, false);
    test_top(32, 3, false);
    test_top(48, 4, false);
    test_top(48, 0, true);
    return 0;
}
