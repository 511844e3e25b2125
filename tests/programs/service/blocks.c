// SPDX-License-Identifier: MIT
// Blocks that are checked, allocated by call stacks of many depths.
#define _GNU_SOURCE
#include "service.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void harmed(const char *what)
{
    dprintf(STDERR_FILENO, "harmed: %s (errno %d, process %d)\n", what, errno, (int)getpid());
    abort();
}

void count(int what, uint64_t more)
{
    atomic_fetch_add_explicit(&counts[what], more, memory_order_relaxed);
}

unsigned draw(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void stamp(struct block *b, size_t size, unsigned char fill)
{
    if (!b->at)
        harmed("no memory");
    b->size = size;
    b->fill = fill;
    b->at[0] = b->at[size / 2] = b->at[size - 1] = fill;
}

static void check(const struct block *b)
{
    if (b->at && (b->at[0] != b->fill || b->at[b->size / 2] != b->fill || b->at[b->size - 1] != b->fill))
        harmed("a block has changed");
}

void allocate(struct block *b, unsigned *state)
{
    unsigned how = draw(state) % 8;
    size_t size = 1 + draw(state) % (draw(state) % 512 == 0 ? 200000 : 600);
    check(b);
    if (how == 1) {
        unsigned char *before = b->at;
        b->at = realloc(before, size);
        if (before && b->at && b->at[0] != b->fill)
            harmed("realloc has lost what was there");
    } else {
        free(b->at);
        b->at = how == 2   ? calloc(1, size)
                : how == 3 ? memalign(64, size)
                : how == 4 ? aligned_alloc(32, (size + 31) & ~(size_t)31)
                           : malloc(size);
    }
    stamp(b, size, (unsigned char)draw(state));
}

void deeper(struct block *b, unsigned *state, unsigned depth)
{
    volatile unsigned char room[64];
    room[depth % sizeof room] = (unsigned char)depth;
    if (depth == 0)
        allocate(b, state);
    else
        deeper(b, state, depth - 1);
    room[0]++;
}

void release(struct block *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        check(&b[i]);
        free(b[i].at);
        b[i].at = NULL;
    }
}
