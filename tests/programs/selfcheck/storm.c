// SPDX-License-Identifier: MIT
// A storm of malloc calls. Each thread holds `blocks` blocks but for the one at hand, so that from outside it can be told
// how many are in use, and each block is filled with its own pattern, so that a byte that changes is seen.
#define _GNU_SOURCE
#include "selfcheck.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

struct block {
    uint8_t *bytes;
    size_t size;
    uint8_t seed;
};

struct worker {
    unsigned count;
    uint64_t state;
    struct block blocks[];
};

static size_t draw_size(uint64_t *state)
{
    uint64_t r = draw(state);
    uint64_t size = r >> 16;
    if (r % 1000 == 0)
        return 150000 + size % 400000; // mmapped, as long as the threshold has not moved
    if (r % 50 == 0)
        return 1500 + size % 30000;
    return 1 + size % (r % 3 == 0 ? 1400 : 200);
}

static uint8_t byte_of(const struct block *b, size_t i)
{
    return (uint8_t)(b->seed + i * 7);
}

// Large blocks: both ends and a sample, or the storm would be one of memset.
static size_t step(size_t i, size_t size)
{
    return size <= 512 || i < 64 || i + 64 >= size ? 1 : 61;
}

static void fill(struct block *b, uint64_t *state)
{
    b->seed = (uint8_t)draw(state);
    for (size_t i = 0; i < b->size; i += step(i, b->size))
        b->bytes[i] = byte_of(b, i);
}

static void check(const struct block *b, size_t size, const char *when)
{
    for (size_t i = 0; i < size; i += step(i, b->size)) {
        if (b->bytes[i] != byte_of(b, i)) {
            harmed("a block of %zu bytes changed at byte %zu, %s", b->size, i, when);
            return;
        }
    }
    checked();
}

static void renew(struct block *b, uint64_t *state)
{
    size_t size = draw_size(state);
    switch (draw(state) % 8) {
    case 0: {
        // What realloc must keep is checked by the old pattern, whose samples depend on the size: only small ones.
        struct block old = *b;
        uint8_t *bytes = realloc(b->bytes, size);
        if (!bytes)
            abort();
        b->bytes = bytes;
        b->size = size;
        if (old.size <= 512 && size <= 512)
            check(&(struct block){bytes, old.size, old.seed}, old.size < size ? old.size : size, "after realloc");
        break;
    }
    case 1:
        free(b->bytes);
        b->bytes = calloc(1, size);
        b->size = size;
        for (size_t i = 0; b->bytes && i < size; i += step(i, size))
            if (b->bytes[i] != 0)
                harmed("calloc's byte %zu of %zu is not zero", i, size);
        break;
    case 2:
        free(b->bytes);
        b->size = size;
        b->bytes = memalign(64, size);
        break;
    default:
        free(b->bytes);
        b->size = size;
        b->bytes = malloc(size);
        break;
    }
    if (!b->bytes)
        abort();
    fill(b, state);
}

static void *run(void *argument)
{
    struct worker *w = argument;
    while (!stopping) {
        struct block *b = &w->blocks[draw(&w->state) % w->count];
        check(b, b->size, "before free");
        renew(b, &w->state);
    }
    return NULL;
}

void storm_start(const struct options *o)
{
    for (unsigned i = 0; i < o->storm; i++) {
        struct worker *w = calloc(1, sizeof *w + o->blocks * sizeof w->blocks[0]);
        w->count = o->blocks;
        w->state = 0x9E3779B97F4A7C15u * (i + 1);
        for (unsigned k = 0; k < o->blocks; k++) {
            struct block *b = &w->blocks[k];
            b->size = draw_size(&w->state);
            b->bytes = malloc(b->size);
            if (!b->bytes)
                abort();
            fill(b, &w->state);
        }
        start(run, w, 0);
    }
}
