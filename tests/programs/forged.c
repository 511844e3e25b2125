// SPDX-License-Identifier: MIT
// No Ruby, but memory that is made to resemble one's heap; with -rdynamic it exports a name of Ruby's: pages that
// point to their descriptors and back, linked, and in arrays as Ruby keeps them (inspector/runtimes/ruby_layouts.c). A search must
// come to an end, and must not believe inconsistent structures.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALIGN = 16384,
    MOST_PAGES = 1 << 20,
    HEAD = 16,                           // bytes before a page's first slot
    SLOTS_27 = (ALIGN - 40 - HEAD) / 40, // of a page, up to Ruby 3.0
    SLOTS_31 = (ALIGN - HEAD) / 40,      // of one of 3.1
    OBJSPACE = 4096,                     // words
    DESCRIPTOR = 64 / sizeof(uint64_t),  // words of one
    NODE_27 = 40 / sizeof(uint64_t),     // its links to the next and the previous one
};

static uint64_t *map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        exit(1);
    return at;
}

static uint64_t address(const void *p)
{
    return (uint64_t)(uintptr_t)p;
}

// The descriptor of page i, as Ruby 2.7 has it or as 3.1 does, with the page behind it: one object, all else free.
static void make_page(uint64_t *descriptor, uint64_t *page, int is_31, const uint64_t *pool)
{
    uint64_t start = address(page) + HEAD;
    page[0] = address(descriptor);
    page[HEAD / sizeof *page] = 1; // an object's flags
    descriptor[0] = is_31 ? 40 | SLOTS_31 << 16 : SLOTS_27;
    descriptor[is_31 ? 4 : 3] = start;
    if (is_31)
        descriptor[2] = address(pool);
}

void rb_gc_start(void);
void rb_gc_start(void)
{
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    size_t pages = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    if (pages < 2 || pages > MOST_PAGES)
        return 2;
    int is_31 = strcmp(mode, "arrays") == 0;
    size_t words = OBJSPACE + pages + pages * DESCRIPTOR;
    uint64_t *objspace = map(words * sizeof *objspace + (pages + 1) * ALIGN); // in one piece, and behind it the rest
    uint64_t *array = objspace + OBJSPACE;
    uint64_t *descriptors = array + pages;
    uint64_t first = (address(objspace + words) + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
    uint64_t *list = objspace + DESCRIPTOR;
    for (size_t i = 0; i < pages; i++) {
        uint64_t *descriptor = descriptors + i * DESCRIPTOR;
        make_page(descriptor, (uint64_t *)(uintptr_t)(first + i * ALIGN), is_31, list);
        array[i] = address(descriptor);
        if (!is_31) // each leads to the next, and the last to the list's head
            descriptor[NODE_27] = address(i + 1 < pages ? descriptor + DESCRIPTOR + NODE_27 : list);
    }
    objspace[0] = address(array);
    objspace[1] = pages;
    if (strcmp(mode, "circle") ==
        0) { // the last leads back to the one before it: from nowhere else does one come round
        descriptors[(pages - 1) * DESCRIPTOR + NODE_27] = address(descriptors + (pages - 2) * DESCRIPTOR + NODE_27);
    } else if (strcmp(mode, "arrays") == 0) { // many, each of them right up to its last element
        array[pages - 1] = address(objspace);
        for (size_t i = 0; i < OBJSPACE; i += 2) {
            objspace[i] = address(array);
            objspace[i + 1] = pages;
        }
    } else if (strcmp(mode, "unsorted") == 0) {
        uint64_t last = array[pages - 1];
        array[pages - 1] = array[pages - 2];
        array[pages - 2] = last;
    } else if (strcmp(mode, "twice") == 0) {
        array[pages - 1] = array[pages - 2];
    } else if (strcmp(mode, "whole") != 0) {
        return 2;
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
