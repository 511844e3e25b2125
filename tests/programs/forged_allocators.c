// SPDX-License-Identifier: MIT
// Memory that resembles that of jemalloc, mimalloc or PHP and is not: `forged_allocators KIND` lays it out, says "ready" and waits. The kinds
// of PHP take -rdynamic.
//   jemalloc           a tree of pages with two extents, and the block that has their descriptors: what must be found
//   jemalloc-lies      the same, but the descriptors say other addresses
//   jemalloc-block     the same, but the block's size and its rest do not add up: without it the extents are found
//   jemalloc-heap      the same, but an extent is malloc's heap
//   jemalloc-endless   pointers to leaves everywhere, each full, and nothing fits
//   jemalloc-zeros     pointers to leaves everywhere, and all leaves are zeros that are resident
//   mimalloc           a segment, and one that is larger: what must be found
//   mimalloc-small     one segment of two slices, and no memory around it: what must be found, too
//   mimalloc-cookie    the same, but no variable has the number that the headers ask for
//   mimalloc-numbers   each segment asks for a number of its own, and a variable has that of the first one
//   php                a heap of two chunks, a cached one and a huge block: what must be found
//   php-ring           the same, but the second chunk does not lead back
//   php-sum            the same, but the heap says that it has taken more
//   php-huge           the same, but the huge block is one of the chunks
//   php-endless        the list of huge blocks goes in a circle
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    CHUNK = 2 << 20,
    ELEMENTS = 1 << 18,
    HEAP_AT = 8,
    REAL_SIZE = 32,
    MAIN = 37,
    WORDS = 1 << 16,
    SLICE = 1 << 16
};
static const uint64_t SEGMENT = 32 << 20;

static volatile uint64_t root[ELEMENTS]; // as jemalloc's, in .bss
static volatile uint64_t words[WORDS];

static uint64_t *memory(size_t bytes)
{
    char *map = mmap(NULL, bytes + CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    return (uint64_t *)(((uintptr_t)map + CHUNK - 1) / CHUNK * CHUNK);
}

static int is(const char *kind, const char *other)
{
    return strcmp(kind, other) == 0;
}

static void add_extent(uint64_t *leaf, uint64_t *descriptor, uint64_t address, uint64_t size)
{
    descriptor[1] = address;
    descriptor[2] = size + 1; // with a number in its lowest bits
    leaf[address >> 12 & (ELEMENTS - 1)] = (uint64_t)descriptor | 1 | (uint64_t)7 << 48;
}

static void make_jemalloc(const char *kind)
{
    uint64_t *block = memory(2 * CHUNK), *leaf = block + PAGE / 8, *extents = memory(CHUNK);
    memset(extents, 1, 24 * PAGE);
    block[0] = 2 * CHUNK;
    block[3] = (uint64_t)block + 2 * CHUNK - 64; // the rest
    block[4] = is(kind, "jemalloc-block") ? 128 : 64;
    root[(uint64_t)extents >> 30] = (uint64_t)leaf;
    add_extent(leaf, block + 32, (uint64_t)extents + (is(kind, "jemalloc-lies") ? PAGE : 0), 16 * PAGE);
    add_extent(leaf, block + 48, (uint64_t)extents + 16 * PAGE, 8 * PAGE);
    if (is(kind, "jemalloc-lies")) {
        block[32 + 1] += PAGE;
        block[48 + 1] += PAGE;
    }
    if (is(kind, "jemalloc-heap")) {
        uint64_t heap = (uint64_t)malloc(100) / PAGE * PAGE;
        uint64_t *other = memory(CHUNK);
        if (heap >> 30 != (uint64_t)extents >> 30)
            root[heap >> 30] = (uint64_t)other;
        add_extent(heap >> 30 == (uint64_t)extents >> 30 ? leaf : other, block + 64, heap, PAGE);
    }
}

static void make_endless(const char *kind)
{
    uint64_t *leaf = memory(2 * CHUNK);
    for (int i = 0; i < 2 * CHUNK / 8; i++)
        leaf[i] = is(kind, "jemalloc-zeros") ? 0 : (uint64_t)leaf + (uint64_t)i % 1024 * 64;
    for (int i = 0; i < ELEMENTS; i++)
        root[i] = (uint64_t)leaf + (uint64_t)i % 4096 * 64;
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint64_t)leaf;
}

static volatile uint64_t number = UINT64_C(0x1234567890abcdef); // as mimalloc's, in .data

static void make_small_mimalloc(void)
{
    char *place = (char *)(SEGMENT << 16); // far from where the kernel puts anything
    uint64_t *segment = mmap(place, 2 * SLICE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (segment != (uint64_t *)place)
        _exit(1);
    segment[13] = (uint64_t)place ^ number;
    segment[14] = 2;
    segment[15] = 1;
}

static void make_mimalloc(const char *kind)
{
    uint64_t size = is(kind, "mimalloc-numbers") ? 32 * SEGMENT : 3 * SEGMENT;
    char *memory = mmap(NULL, size + SEGMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *at = memory == MAP_FAILED ? NULL : (char *)(((uintptr_t)memory + SEGMENT - 1) / SEGMENT * SEGMENT);
    if (!at)
        _exit(1);
    for (uint64_t i = 0; i < size / SEGMENT; i++, at += SEGMENT) {
        uint64_t *head = (uint64_t *)at + 27;
        head[0] = (uint64_t)at ^ (number + (is(kind, "mimalloc-numbers") ? 2 * i : 0));
        head[1] = i == 1 && !is(kind, "mimalloc-numbers") ? 700 : SEGMENT / SLICE;
        head[2] = 1;
        if (i == 2 && !is(kind, "mimalloc-numbers"))
            head[0] = 0; // within the larger one
    }
    if (is(kind, "mimalloc-cookie"))
        number = 0;
}

// What tells a PHP, if the program exports its names.
void zend_mm_gc(void);
void zend_mm_gc(void)
{
}

static void make_php(const char *kind)
{
    uint64_t *chunks[3], *huge = memory(2 * CHUNK);
    for (int i = 0; i < 3; i++)
        chunks[i] = memory(CHUNK);
    uint64_t *heap = chunks[0] + HEAP_AT, *list = chunks[0] + 512;
    for (int i = 0; i < 2; i++) {
        chunks[i][0] = (uint64_t)heap;
        chunks[i][1] = chunks[i][2] = (uint64_t)chunks[1 - i];
    }
    if (is(kind, "php-ring"))
        chunks[1][2] = (uint64_t)huge;
    heap[2] = 1000;
    heap[REAL_SIZE] = 3 * CHUNK + 2 * CHUNK + (is(kind, "php-sum") ? CHUNK : 0);
    heap[REAL_SIZE + 1] = 10 * (uint64_t)CHUNK;
    heap[MAIN - 1] = (uint64_t)list;
    heap[MAIN] = (uint64_t)chunks[0];
    heap[MAIN + 1] = (uint64_t)chunks[2];
    heap[MAIN + 2] = 2;
    list[0] = (uint64_t)(is(kind, "php-huge") ? chunks[1] : huge);
    list[1] = is(kind, "php-huge") ? CHUNK : 2 * CHUNK;
    list[2] = is(kind, "php-endless") ? (uint64_t)list : 0;
    if (is(kind, "php-huge"))
        heap[REAL_SIZE] -= CHUNK;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "jemalloc";
    if (is(kind, "jemalloc-endless") || is(kind, "jemalloc-zeros"))
        make_endless(kind);
    else if (is(kind, "mimalloc-small"))
        make_small_mimalloc();
    else if (strncmp(kind, "mimalloc", 8) == 0)
        make_mimalloc(kind);
    else if (strncmp(kind, "php", 3) == 0)
        make_php(kind);
    else
        make_jemalloc(kind);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
