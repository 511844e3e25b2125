// SPDX-License-Identifier: MIT
// The walker on a heap that was real: a core of the truth harness (FUZZ_IMAGE) is kept in memory, and each input is a list
// of patches to it. A patch says which word and how it changes, so that a few bytes wreck a heap in any way.
#define _GNU_SOURCE
#include "fuzz.h"

#include "capture/capture.h"
#include "libc/libc.h"
#include "target/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_PATCHES = 64, MAX_REGIONS = 4096, MAX_SPANS = 256 };

#define SOURCES (1u << AS_LAYOUT_RELOCATION | 1u << AS_LAYOUT_SCAN)

struct region {
    uint64_t start, end;
    uint8_t *bytes, *whole; // patched, and as it was
};

static struct region regions[MAX_REGIONS];
static size_t region_count;
static size_t word_count;
// Where malloc's own structures lie: half of all patches go there.
static struct span {
    uint64_t start, words;
} spans[MAX_SPANS];
static size_t span_count;
static size_t span_words;
static struct as_target *core;
static struct as_target_ops ops;

// One change of one word, little-endian, as it stands in an input.
struct patch {
    uint8_t kind;
    int8_t delta;
    uint16_t wild;
    uint32_t word; // which
    uint32_t other;
};

static uint8_t *bytes_at(uint64_t address, size_t *length)
{
    for (size_t i = 0; i < region_count; i++) {
        const struct region *r = &regions[i];
        if (address < r->start || address >= r->end)
            continue;
        if (*length > r->end - address)
            *length = (size_t)(r->end - address);
        return r->bytes + (address - r->start);
    }
    return NULL;
}

static size_t image_read(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    (void)t;
    size_t done = 0;
    while (done < length) {
        size_t part = length - done;
        const uint8_t *bytes = bytes_at(address + done, &part);
        if (!bytes)
            break;
        memcpy((uint8_t *)buffer + done, bytes, part);
        done += part;
    }
    return done;
}

// Every third page absent, every seventh swapped.
static bool image_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    (void)err;
    for (uint64_t at = start; at < end; at += t->page_size, pages++) {
        uint64_t page = at / t->page_size;
        *pages = page % 3 == 0 ? 0 : page % 7 == 0 ? AS_RES_SWAPPED : AS_RES_PRESENT;
    }
    return true;
}

// The address of the nth word of all regions, or of malloc's structures when n is odd.
static uint64_t word_address(uint64_t n)
{
    if (n & 1) {
        n = n / 2 % span_words;
        for (size_t i = 0; i < span_count; n -= spans[i++].words)
            if (n < spans[i].words)
                return spans[i].start + n * 8;
    }
    n = n / 2 % word_count;
    for (size_t i = 0; i < region_count; i++) {
        uint64_t words = (regions[i].end - regions[i].start) / 8;
        if (n < words)
            return regions[i].start + n * 8;
        n -= words;
    }
    return 0;
}

static void add_span(uint64_t start, uint64_t length)
{
    size_t there = (size_t)length;
    start &= ~(uint64_t)7;
    if (span_count == MAX_SPANS || !bytes_at(start, &there) || there < length)
        return;
    spans[span_count++] = (struct span){start, length / 8};
    span_words += length / 8;
}

static void find_structures(void)
{
    struct as_error err;
    struct as_store s;
    struct as_capture_options options = {.chunk_fd = -1, .allowed_sources = SOURCES};
    fuzz_check(as_capture(core, &options, &s, &err) && s.mallocs.count > 0, "the image holds no malloc");
    for (size_t i = 0; i < s.mallocs.count; i++)
        add_span(s.mallocs.items[i].mp, 144);
    for (size_t i = 0; i < s.arenas.count; i++) {
        add_span(s.arenas.items[i].address, 2200);
        add_span(s.arenas.items[i].top, 16);
    }
    for (size_t i = 0; i < s.heaps.count; i++)
        add_span(s.heaps.items[i].start, 48);
    for (size_t i = 0; i < s.threads.count; i++)
        add_span(s.threads.items[i].tcache, 640);
    as_store_free(&s);
    fuzz_check(span_words > 0, "no structure of malloc's was found");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    struct as_error err = {0};
    const char *path = getenv("FUZZ_IMAGE");
    core = path ? as_target_open_core(path, &err) : NULL;
    if (!core) {
        fprintf(stderr, "FUZZ_IMAGE must name a core (tests/tools/fuzz_seeds.py makes one): %s\n", err.text);
        exit(1);
    }
    for (size_t i = 0; i < core->mappings.count && region_count < MAX_REGIONS; i++) {
        const struct as_mapping *m = &core->mappings.items[i];
        size_t size = (size_t)(m->end - m->start);
        if (!(m->prot & AS_PROT_WRITE) || size > 1 << 26)
            continue;
        uint8_t *bytes = malloc(size);
        size = core->ops->memory.read(core, m->start, bytes, size);
        if (size < 8) {
            free(bytes);
            continue;
        }
        struct region *r = &regions[region_count++];
        *r = (struct region){.start = m->start, .end = m->start + size, .bytes = bytes, .whole = malloc(size)};
        memcpy(r->whole, bytes, size);
        word_count += size / 8;
    }
    ops = *core->ops;
    ops.memory.read = image_read;
    ops.residency.pages = image_residency;
    core->ops = &ops;
    core->residency.known = true;
    find_structures();
    return 0;
}

static void apply(const struct patch *p)
{
    size_t length = 8;
    uint64_t place = word_address(p->word);
    uint8_t *bytes = bytes_at(place, &length);
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    switch (p->kind % 6) {
    case 0: // near to what it was
        word += (uint64_t)(int64_t)p->delta;
        break;
    case 1:
        word ^= UINT64_C(1) << (p->wild % 64);
        break;
    case 2: // a pointer to somewhere
        word = word_address(p->other) + (uint64_t)(int64_t)p->delta;
        break;
    case 3: // the same, as safe-linking has it
        word = (place >> 12) ^ (word_address(p->other) + (uint64_t)(int64_t)p->delta);
        break;
    case 4:
        word = (uint64_t)(int64_t)p->delta << (p->wild % 64);
        break;
    default:
        word = (uint64_t)p->wild << 4 | (p->delta & 7);
        break;
    }
    memcpy(bytes, &word, sizeof word);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t count = size / sizeof(struct patch);
    uint32_t touched[MAX_PATCHES];
    if (count > MAX_PATCHES)
        count = MAX_PATCHES;
    for (size_t i = 0; i < count; i++) {
        struct patch p;
        memcpy(&p, data + i * sizeof p, sizeof p);
        touched[i] = p.word;
        apply(&p);
    }
    fuzz_look(core, SOURCES);
    for (size_t i = 0; i < count; i++) {
        uint64_t place = word_address(touched[i]);
        for (size_t k = 0; k < region_count; k++)
            if (place >= regions[k].start && place < regions[k].end)
                memcpy(regions[k].bytes + (place - regions[k].start), regions[k].whole + (place - regions[k].start), 8);
    }
    return 0;
}
