// SPDX-License-Identifier: MIT
// Memory made to cost an inspector time: `trap KIND` lays it out, says "ready" and waits to be killed.
//   chain     a thread's heap in which every 16 bytes resemble a chunk that leads far away, and its first chunk is broken
//   torn      a thread's heap in which a short chain breaks again and again
//   maps      pages that each resemble the start of an mmapped chunk with another inside, and are not
//   segments  much memory that resembles a segment of the main arena, whose top is broken
//   splinters many mappings, and a main arena whose top is broken
//   honest    nothing of the kind, but as much memory in as many chunks: what the others' cost is measured against
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MEBIBYTE = 1 << 20, HEAP = 60 * MEBIBYTE, MEMORY = 512 * MEBIBYTE, MAPS = 30000 };

static const char *kind;
static void *volatile kept; // the compiler may leave out what nobody inspects

static void say_ready(void)
{
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        _exit(1);
}

// A 60 MiB heap made of blocks below the mmap threshold, which malloc takes one after the other.
static void *fill_heap(void *unused)
{
    (void)unused;
    char *first = NULL;
    for (size_t total = 0; total < HEAP; total += 65536) {
        char *block = kept = malloc(65536 - 16);
        first = first ? first : block;
    }
    volatile uint64_t *words = (uint64_t *)(void *)first;
    for (size_t i = 0; i + 1 < HEAP / 8 - 131072; i += 2) { // words[i] stands where a chunk's size would
        uint64_t left = HEAP - 2 * MEBIBYTE - i * 8;
        if (strcmp(kind, "chain") == 0)
            words[i + 1] = ((left / 2 + i * 16 % (left / 2 + 1)) & ~UINT64_C(15)) | 5;
        else
            words[i + 1] = i / 2 % 66 < 64 ? 0x20 | 5 : 0;
    }
    words[-1] = 0; // the first block's size
    say_ready();
    pause(); // its end would run malloc
    return NULL;
}

static void break_top(void)
{
    // What a small block is cut from is the top, when nothing has been freed.
    char *block = malloc(5000);
    *(size_t *)(void *)(block + malloc_usable_size(block)) = 0x77770;
}

static uint64_t *memory(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        exit(1);
    return map;
}

static void make_maps(void)
{
    uint64_t *words = memory(MEMORY);
    kept = malloc(MEBIBYTE); // so that there is one to be searched for
    for (size_t i = 0; i < MEMORY / 8; i += 512)
        words[i + 1] = UINT64_C(1) << 40 | 2; // more than there is
}

static void make_segments(void)
{
    uint64_t *words = memory(MEMORY / 2);
    for (size_t i = 0; i + 4 < MEMORY / 16; i += 4)
        words[i + 1] = 0x21;
    words[MEMORY / 16 - 3] = 0;
    break_top();
}

static void make_splinters(void)
{
    char *map = (char *)memory((size_t)MAPS * 8192);
    for (size_t i = 0; i < MAPS; i++) {
        memset(map + i * 8192, 0x21, 64);
        mprotect(map + i * 8192, 4096, PROT_READ);
    }
    break_top();
}

static void make_honest(void)
{
    for (size_t total = 0; total < MEMORY / 2; total += 32)
        kept = malloc(24);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    kind = argc > 1 ? argv[1] : "";
    if (strcmp(kind, "maps") == 0)
        make_maps();
    else if (strcmp(kind, "segments") == 0)
        make_segments();
    else if (strcmp(kind, "splinters") == 0)
        make_splinters();
    else if (strcmp(kind, "honest") == 0)
        make_honest();
    else if (pthread_create(&thread, NULL, fill_heap, NULL) == 0)
        return pause();
    say_ready();
    return pause();
}
