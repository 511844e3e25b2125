// SPDX-License-Identifier: MIT
// Memory that resembles V8's heap and is not: `forged_v8 KIND` lays it out, says "ready" and waits. The tests run it under the name
// node.
//   true     four pages, one of them with large objects, and one behind another: what must be found
//   address  the same, but each header says another address
//   space    the same, but the space belongs to another heap
//   size     the same, but the pages claim to be larger than the address space
//   nested   the same, and inside of the first page something resembles a header
//   malloc   the same, and one page claims to reach over malloc's heap
//   heaps    each page of many has a heap of its own
//   apart    three pages whose headers lead to descriptors
//   cage     three pages in a range of 4 GiB, each with its number in the range, behind the first, which cannot be written
//   number   the same, but the numbers are those of the next pages
//   cppgc    true, and three pages of cppgc's, one of them with a large object of 200,000 bytes
//   cppgc-heap  the same, but the heap that their space leads to is another one
//   reserve  the same as true, and 64 TiB that a clone does not inherit: places that only the program itself has
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 256 << 10, COUNT = 1000 };

struct page {
    uint64_t size, flags, heap, area_start, area_end, allocated, wasted, high_water, space, allocator, at, reserved;
};

static uint64_t *heap, (*spaces)[2];

static char *memory(size_t bytes)
{
    char *map = mmap(NULL, bytes + SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    return (char *)(((uintptr_t)map + SIZE - 1) / SIZE * SIZE);
}

static struct page *make(char *at, uint64_t size, int which)
{
    struct page *page = (struct page *)at;
    spaces[which][1] = (uint64_t)&heap[which];
    *page = (struct page){
        .size = size,
        .heap = (uint64_t)&heap[which],
        .area_start = (uint64_t)at + 4096,
        .area_end = (uint64_t)at + size,
        .space = (uint64_t)spaces[which],
        .at = (uint64_t)at,
        .reserved = size,
    };
    return page;
}

static void make_apart(void)
{
    enum { RESERVED_AT = 1, RESERVED, TOTAL = 6, END, HEAP, START, SPACE, WORDS };
    char *map = memory(3 * SIZE);
    spaces[0][1] = (uint64_t)&heap[0];
    for (int i = 0; i < 3; i++) {
        char *at = map + i * SIZE;
        uint64_t *descriptor = (uint64_t *)calloc(WORDS, sizeof *descriptor);
        if (!descriptor)
            _exit(1);
        descriptor[RESERVED_AT] = (uint64_t)at;
        descriptor[RESERVED] = descriptor[TOTAL] = SIZE;
        descriptor[START] = (uint64_t)at + 16;
        descriptor[END] = (uint64_t)at + SIZE;
        descriptor[HEAP] = (uint64_t)&heap[0];
        descriptor[SPACE] = (uint64_t)spaces[0];
        ((uint64_t *)at)[0] = 10; // flags
        ((uint64_t *)at)[1] = (uint64_t)descriptor;
    }
}

static void make_cage(uint64_t more)
{
    const size_t range = (size_t)1 << 32;
    char *map = mmap(NULL, 2 * range, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    uint64_t first = 64;
    uint64_t *constants = (uint64_t *)(((uintptr_t)map + range - 1) / range * range);
    char *at = (char *)constants + first * SIZE;
    if (mprotect(constants, SIZE, PROT_READ | PROT_WRITE) || mprotect(at, (size_t)3 * SIZE, PROT_READ | PROT_WRITE))
        _exit(1);
    constants[2] = 0x49d; // the first page's first word behind its header is an object's address
    mprotect(constants, SIZE, PROT_READ);
    for (uint64_t i = 0; i < 3; i++) {
        ((uint64_t *)(at + i * SIZE))[0] = 4; // flags
        ((uint64_t *)(at + i * SIZE))[1] = first + i + more;
    }
}

static void make_cppgc(uint64_t other)
{
    enum { PAGE = 128 << 10, HANDLE = 0, SPACE, KIND, LARGE = 7 };
    uint64_t *own = (uint64_t *)memory(4096), *space = own + 64;
    char *map = memory(4 * PAGE);
    own[2] = (uint64_t)own + other; // what spaces lead to begins with the heap's address
    space[1] = (uint64_t)&own[2];
    for (int i = 0; i < 3; i++) {
        uint64_t *header = (uint64_t *)(map + i * PAGE);
        header[HANDLE] = (uint64_t)&own[1];
        header[SPACE] = (uint64_t)space;
        header[KIND] = i == 2;
        header[LARGE] = i == 2 ? 200000 : 0;
    }
}

static void make_headers(const char *kind)
{
    char *map = memory(8 * SIZE);
    struct page *pages[] = {make(map, SIZE, 0), make(map + SIZE, SIZE, 0), make(map + 3 * SIZE, 3 * SIZE, 0),
                            make(map + 7 * SIZE, SIZE, 0)};
    for (int i = 0; i < 4; i++) {
        if (strcmp(kind, "address") == 0)
            pages[i]->at += 4096;
        if (strcmp(kind, "size") == 0)
            pages[i]->size = pages[i]->reserved = UINT64_MAX - 4095;
    }
    if (strcmp(kind, "space") == 0)
        spaces[0][1] = (uint64_t)&heap[1];
    if (strcmp(kind, "nested") == 0)
        make(map + 4 * SIZE, SIZE, 0);
    if (strcmp(kind, "malloc") == 0) {
        char *block = sbrk(0); // malloc's heap begins behind the next multiple
        char *end = (char *)(((uintptr_t)block + 2 * SIZE) / SIZE * SIZE);
        if (sbrk(end + SIZE - block) == (void *)-1)
            _exit(1);
        memset(malloc(100), 1, 100);
        make(end - SIZE, 4 * SIZE, 0);
        memset(malloc(100000), 1, 100000);
    }
    char *many = strcmp(kind, "heaps") == 0 ? memory((size_t)COUNT * SIZE) : NULL;
    for (int i = 0; i < COUNT && many; i++)
        make(many + (size_t)i * SIZE, SIZE, i);
    if (strcmp(kind, "reserve") == 0) {
        size_t bytes = (size_t)1 << 46;
        char *reserve = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (reserve == MAP_FAILED || madvise(reserve, bytes, MADV_DONTFORK) != 0)
            _exit(1);
        *reserve = 1;
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "true";
    heap = (uint64_t *)memory(COUNT * sizeof *heap);
    spaces = (uint64_t(*)[2])memory(COUNT * sizeof *spaces);
    if (strcmp(kind, "apart") == 0)
        make_apart();
    else if (strcmp(kind, "cage") == 0 || strcmp(kind, "number") == 0)
        make_cage(strcmp(kind, "number") == 0);
    else
        make_headers(kind);
    if (strncmp(kind, "cppgc", 5) == 0)
        make_cppgc(strcmp(kind, "cppgc-heap") == 0 ? 8 : 0);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
