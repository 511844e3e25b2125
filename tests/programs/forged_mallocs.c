// SPDX-License-Identifier: MIT
// Memory that resembles that of tcmalloc, musl, mimalloc 3 or PartitionAlloc and is not: `forged_mallocs KIND` lays it out, says "ready" and waits. It has a malloc of
// its own, which nobody knows: such a one may be any.
//   tcmalloc           three spans in one leaf, the sums over them, and the chunk of tcmalloc's own: what must be found
//   tcmalloc-stale     the same, and words within a span that lead nowhere: they do not count
//   tcmalloc-sums      the same, but the sums say other numbers: it is found, and the evidence does not name them
//   tcmalloc-free      the same, but no variable says where the chunk is free: what lies between things in it is found
//   tcmalloc-between   the same, and the spans lie within the chunk, between the descriptors and the leaf
//   tcmalloc-lies      the same, and more spans, whose descriptors begin with other pages
//   tcmalloc-overlap   the same, but a span is where the chunk is
//   tcmalloc-endless   pointers to leaves everywhere, each full, and nothing fits
//   musl               a list of two pages of descriptions, two groups of two pages, and one in a slot: what must be found
//   musl-back          the same, but no group leads back
//   musl-number        the same, but the second page has another number
//   musl-overlap       the same, but the groups have a page in common
//   musl-endless       the list of pages goes in a circle
//   mimalloc3          a map of pages, one page in an arena and one in a mapping of its own: what must be found
//   mimalloc3-later    the same, as from 3.6 on: the map and the arena's slices begin elsewhere
//   mimalloc3-stale    the same, with 20 more pages, 12 words that lead to none, and a page that was where the arena is
//   mimalloc3-place    the same, but the map has the pages in other places
//   mimalloc3-arena    the same, but the arena has another number of slices
//   mimalloc3-endless  each table is the map itself
//   partition          a root with a pool, and a bucket that leads to a slot span: what must be found
//   partition-root     the same, but the inverted address is another
//   partition-span     the same, but the slot span has another bucket
//   partition-pool     the same, but the pool stands in the root only once
//   partition-endless  each word of the root leads to a slot span with no bucket, and many words are roots
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    LARGE_PAGE = 8192,
    CHUNK = 8 << 20,
    LEAF = 1 << 18,
    ROOT = 1 << 17,
    WORDS = 1 << 16,
    SLOTS = 101,
    MAPPED_AT = 12,
    ROOM = 1 << 16,
    SLICE_BITS = 16,
    TABLE_BITS = 13,
};

static char room[ROOM];
static size_t used;

void *malloc(size_t size)
{
    used += (size + 15) / 16 * 16;
    return used <= ROOM ? room + used - (size + 15) / 16 * 16 : NULL;
}

// As tcmalloc's and musl's, in .bss.
static struct {
    volatile uint64_t root[ROOT], sums[8], words[WORDS];
} pages;
static volatile struct {
    uint64_t own, free, left, other;
} chunk;
static volatile struct {
    uint64_t number, counters, unused[5], first, last;
} context;

static char *memory_at(uintptr_t place, size_t bytes)
{
    char *map = mmap((void *)place, bytes + CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    return (char *)(((uintptr_t)map + CHUNK - 1) / CHUNK * CHUNK);
}

static char *memory(size_t bytes)
{
    return memory_at(0, bytes);
}

static int is(const char *kind, const char *other)
{
    return strcmp(kind, other) == 0;
}

static void add_span(uint64_t *leaf, uint64_t *descriptor, uint64_t start, uint64_t length, uint64_t location)
{
    descriptor[0] = start;
    descriptor[1] = length;
    descriptor[5] = location << 24;
    leaf[start % LEAF] = leaf[(start + length - 1) % LEAF] = (uint64_t)descriptor;
}

static void make_tcmalloc(const char *kind)
{
    char *own = memory(CHUNK), *spans = memory(CHUNK);
    uint64_t *descriptors = (uint64_t *)own, *leaf = (uint64_t *)(own + (128 << 10) + 48);
    if (is(kind, "tcmalloc-between")) {
        spans = own + (1 << 20);
        leaf = (uint64_t *)(own + (4 << 20) + 48);
    }
    uint64_t page = (uint64_t)(is(kind, "tcmalloc-overlap") ? own : spans) / LARGE_PAGE;
    pages.root[page / LEAF] = (uint64_t)leaf;
    add_span(leaf, descriptors, page, 10, 0);
    add_span(leaf, descriptors + 12, page + 10, 5, 1);
    add_span(leaf, descriptors + 6, page + 20, 7, 2);
    for (uint64_t i = 1; i < 26 && is(kind, "tcmalloc-stale"); i++)
        if (i < 9 || (i > 20 && i < 26))
            leaf[(page + i) % LEAF] = (uint64_t)(descriptors + 600);
    for (uint64_t i = 0; i < 12 && is(kind, "tcmalloc-lies"); i++) {
        add_span(leaf, descriptors + 18 + i * 6, page + 100 + i * 4, 1, 0);
        descriptors[18 + i * 6]++;
    }
    uint64_t sums[] = {22, is(kind, "tcmalloc-sums") ? 6 : 5, 7, 15};
    for (int i = 0; i < 4; i++)
        pages.sums[i + 2] = sums[i] * LARGE_PAGE;
    if (!is(kind, "tcmalloc-free") && !is(kind, "tcmalloc-between")) {
        chunk.free = (uint64_t)own + (3 << 20) + 48;
        chunk.left = (uint64_t)own + CHUNK - chunk.free;
    }
}

static void make_endless(void)
{
    uint64_t *leaf = (uint64_t *)memory(CHUNK);
    for (int i = 0; i < CHUNK / 8; i++)
        leaf[i] = (uint64_t)leaf + (uint64_t)i % 1024 * 64;
    for (int i = 0; i < ROOT; i++)
        pages.root[i] = (uint64_t)leaf + (uint64_t)i % 4096 * 64;
    for (int i = 0; i < WORDS; i++)
        pages.words[i] = (uint64_t)leaf;
}

static void add_group(char *page, int slot, char *group, uint64_t mapped, int back)
{
    uint64_t *description = (uint64_t *)page + 3 + (ptrdiff_t)slot * 5;
    description[2] = (uint64_t)group;
    description[4] = mapped << MAPPED_AT | 0x3f;
    *(uint64_t *)group = back ? (uint64_t)description : 0;
}

static void make_musl(const char *kind)
{
    const uint64_t number = UINT64_C(0x1234567890abcdef);
    char *list = memory(2 * PAGE), *groups = memory(4 * PAGE);
    int back = !is(kind, "musl-back");
    for (int i = 0; i < 2; i++) {
        uint64_t *page = (uint64_t *)(list + (ptrdiff_t)i * PAGE);
        page[0] = number + (i == 1 && is(kind, "musl-number"));
        page[1] = i == 0 || is(kind, "musl-endless") ? (uint64_t)list + (i == 0 ? PAGE : 0) : 0;
        page[2] = SLOTS;
    }
    add_group(list, 0, groups, 2, back);
    add_group(list, SLOTS - 1, groups + 256, 0, back);
    add_group(list + PAGE, 7, groups + (is(kind, "musl-overlap") ? 1 : 3) * PAGE, 2, back);
    context.number = number;
    context.first = (uint64_t)list;
    context.last = (uint64_t)list + (is(kind, "musl-endless") ? 2 : 1) * PAGE;
}

// A description of where memory is from: from an arena, or a mapping of its own.
static void describe(uint64_t *words, const void *from, uint64_t what, uint64_t kind)
{
    words[0] = (uint64_t)from;
    words[1] = what;
    words[2] = kind | UINT64_C(1) << 48;
}

// A page of `count` slices is at `slice`.
static void add_page(uint64_t **tables, uint64_t *table, uint64_t *page, uint64_t slice, uint64_t count, uint64_t shift)
{
    for (uint64_t at = slice >> SLICE_BITS; at < (slice >> SLICE_BITS) + count; at++) {
        tables[at >> TABLE_BITS] = table;
        table[(at + shift) % (1 << TABLE_BITS)] = (uint64_t)page;
    }
}

static void make_mimalloc3(const char *kind)
{
    int later = is(kind, "mimalloc3-later");
    uint64_t shift = is(kind, "mimalloc3-place"), count = CHUNK >> SLICE_BITS;
    // Far from where the kernel puts anything: what one table is for.
    char *map = memory(2 * CHUNK), *arena = memory_at((uintptr_t)1 << 40, 2 * CHUNK), *own = arena + CHUNK;
    uint64_t **tables = (uint64_t **)(map + (later ? 10 * sizeof(uint64_t) : 0));
    uint64_t *description = (uint64_t *)(arena + (later ? 8 << SLICE_BITS : 0));
    uint64_t *page = (uint64_t *)(arena + (9 << SLICE_BITS)), *single = (uint64_t *)own;
    uint64_t *table = (uint64_t *)(map + CHUNK);
    uint64_t pointers = ((1 << 21) - (later ? 10 : 0) * sizeof(uint64_t)) / sizeof(uint64_t);
    tables[0] = (uint64_t *)tables + pointers;
    if (later)
        *(uint64_t *)map = pointers;
    describe(description, arena, CHUNK, 3);
    if (later)
        description[5] = (uint64_t)arena;
    description[later ? 6 : 4] = count - is(kind, "mimalloc3-arena");
    describe(page + 12, description, 9 | UINT64_C(3) << 32, 7);
    describe(single + 12, own, CHUNK / 2, 3);
    for (uint64_t i = 1; i < pointers && is(kind, "mimalloc3-endless"); i++)
        tables[i] = (uint64_t *)map;
    if (!is(kind, "mimalloc3-endless")) {
        add_page(tables, table, page, (uint64_t)page, 3, shift);
        add_page(tables, table, single, (uint64_t)single, 2, shift);
    }
    for (uint64_t i = 40; i < 73 && is(kind, "mimalloc3-stale"); i++) {
        uint64_t *more = (uint64_t *)(arena + (i << SLICE_BITS));
        if (i < 60)
            describe(more + 12, description, i | UINT64_C(1) << 32, 7);
        else if (i == 72)
            describe(more + 12, more, (uint64_t)1 << SLICE_BITS, 3);
        add_page(tables, table, more, (uint64_t)more, 1, shift);
    }
    pages.words[7] = (uint64_t)map;
}

static void make_partition(const char *kind)
{
    const uint64_t size = UINT64_C(1) << 30, place = UINT64_C(1) << 41; // far from where the kernel puts anything
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    volatile uint64_t *root = pages.words + 8, *bucket = root + 20;
    uint64_t *span = (uint64_t *)memory(PAGE);
    if (mmap((void *)place, size, PROT_NONE, flags, -1, 0) != (void *)place ||
        mprotect((void *)(place + CHUNK), 3 * CHUNK, PROT_READ | PROT_WRITE) != 0)
        _exit(1);
    for (int i = 3; i < 7; i += is(kind, "partition-pool") ? 4 : 3) {
        root[i] = place;
        root[i + 1] = ~(size - 1);
    }
    *bucket = (uint64_t)span;
    span[0] = place + CHUNK + 64;
    span[2] = (uint64_t)(is(kind, "partition-span") ? bucket + 1 : bucket);
    root[1000] = ~(uint64_t)(root + (is(kind, "partition-root") ? 200 : 0));
    for (int i = 30; i < WORDS / 2 && is(kind, "partition-endless"); i++)
        root[i] = i % 2 ? (uint64_t)span : ~(uint64_t)root;
    if (is(kind, "partition-endless"))
        span[2] = 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "tcmalloc";
    if (is(kind, "tcmalloc-endless"))
        make_endless();
    else if (strncmp(kind, "mimalloc3", 9) == 0)
        make_mimalloc3(kind);
    else if (strncmp(kind, "partition", 9) == 0)
        make_partition(kind);
    else if (strncmp(kind, "musl", 4) == 0)
        make_musl(kind);
    else
        make_tcmalloc(kind);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
