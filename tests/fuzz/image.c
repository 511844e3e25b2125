// SPDX-License-Identifier: MIT
#include "image.h"

#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORD = 8,
    PAGE = 4096,
    LINE = 256,        // bytes that are content if one of them is not 0
    LARGEST = 1 << 26, // bytes of a mapping that is kept in memory
};

static struct image *current;

static const struct image_region *region_at(const struct image *image, uint64_t address)
{
    size_t low = 0, high = image->region_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct image_region *r = &image->regions[middle];
        if (address >= r->end)
            low = middle + 1;
        else if (address < r->start)
            high = middle;
        else
            return r;
    }
    return NULL;
}

static uint8_t *bytes_at(const struct image *image, uint64_t address, size_t *length)
{
    const struct image_region *r = region_at(image, address);
    if (!r)
        return NULL;
    if (*length > r->end - address)
        *length = (size_t)(r->end - address);
    return r->bytes + (address - r->start);
}

static size_t image_read(struct as_target *t, uint64_t address, void *buffer, size_t length)
{
    size_t done = 0;
    __atomic_fetch_add(&current->reads, 1, __ATOMIC_RELAXED);
    while (done < length) {
        size_t part = length - done;
        const uint8_t *bytes = bytes_at(current, address + done, &part);
        if (!bytes) {
            // What nobody writes, or is too large to be kept: up to where the next region may begin.
            part = PAGE - (address + done) % PAGE;
            part = part < length - done ? part : length - done;
            size_t got = current->read_core(t, address + done, (uint8_t *)buffer + done, part);
            done += got;
            if (got < part)
                break;
            continue;
        }
        memcpy((uint8_t *)buffer + done, bytes, part);
        done += part;
    }
    return done;
}

// What had a content is resident, and so is what is not kept here, but for reservations.
static bool image_residency(struct as_target *t, uint64_t start, uint64_t end, uint8_t *pages, struct as_error *err)
{
    (void)err;
    for (uint64_t at = start; at < end; at += t->page_size, pages++) {
        const struct image_region *r = region_at(current, at);
        const struct as_mapping *m = as_target_mapping_at(t, at);
        bool present = r ? r->present[(at - r->start) / PAGE] : m && m->end - m->start <= LARGEST;
        *pages = present ? AS_RES_PRESENT : 0;
    }
    return true;
}

// The address of the nth word: of all regions; of the spans; or of the heads.
static uint64_t word_address(const struct image *image, uint64_t n)
{
    if ((n & 3) == 3 && image->heads.count > 0) {
        const struct image_span *head = &image->heads.items[n / 4 % image->heads.count];
        return head->start + n / 4 / image->heads.count % head->words * WORD;
    }
    if ((n & 1) && image->span_words > 0) {
        n = n / 2 % image->span_words;
        for (size_t i = 0; i < image->spans.count; n -= image->spans.items[i++].words)
            if (n < image->spans.items[i].words)
                return image->spans.items[i].start + n * WORD;
    }
    n = n / 2 % image->words;
    for (size_t i = 0; i < image->region_count; i++) {
        const struct image_region *r = &image->regions[i];
        uint64_t words = (r->end - r->start) / WORD;
        if (n < words)
            return r->start + n * WORD;
        n -= words;
    }
    return 0;
}

static bool is_here(const struct image *image, uint64_t start, uint64_t length)
{
    size_t there = (size_t)length;
    return bytes_at(image, start, &there) && there == length && length >= WORD;
}

void image_add_span(struct image *image, uint64_t start, uint64_t length)
{
    struct as_error err;
    start &= ~(uint64_t)(WORD - 1);
    if (!is_here(image, start, length))
        return;
    struct image_span *span = as_vec_add(&image->spans, &err);
    fuzz_check(span, "no memory for the image");
    *span = (struct image_span){start, length / WORD};
    image->span_words += length / WORD;
}

void image_add_head(struct image *image, uint64_t start, uint64_t length)
{
    struct as_error err;
    struct image_span *head = is_here(image, start, length) ? as_vec_add(&image->heads, &err) : NULL;
    if (head)
        *head = (struct image_span){start, length / WORD};
}

static bool is_zero(const uint8_t *bytes, size_t length)
{
    return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

void image_add_content(struct image *image)
{
    for (size_t i = 0; i < image->region_count; i++) {
        const struct image_region *r = &image->regions[i];
        for (uint64_t at = r->start; at < r->end; at += LINE)
            if (!is_zero(r->bytes + (at - r->start), LINE))
                image_add_span(image, at, LINE);
    }
}

static void add_region(struct image *image, const struct as_mapping *m)
{
    size_t size = (size_t)(m->end - m->start);
    if (!(m->prot & AS_PROT_WRITE) || size > LARGEST || image->region_count == IMAGE_REGIONS)
        return;
    uint8_t *bytes = calloc(size, 1);
    size_t got = bytes ? image->core->ops->memory.read(image->core, m->start, bytes, size) : 0;
    if (got < PAGE) {
        free(bytes);
        return;
    }
    struct image_region *r = &image->regions[image->region_count++];
    *r = (struct image_region){m->start, m->start + got / PAGE * PAGE, bytes, calloc(got / PAGE, 1)};
    fuzz_check(r->present, "no memory for the image");
    for (size_t i = 0; i < got / PAGE; i++)
        r->present[i] = !is_zero(bytes + i * PAGE, PAGE);
    image->words += (r->end - r->start) / WORD;
}

void image_open(struct image *image, const char *path)
{
    struct as_error err = {0};
    image->core = path ? as_target_open_core(path, &err) : NULL;
    if (!image->core) {
        fprintf(stderr, "%s must be a core (tests/tools/fuzz_seeds.py makes one): %s\n", path ? path : "FUZZ_IMAGE",
                err.text);
        exit(1);
    }
    for (size_t i = 0; i < image->core->mappings.count; i++)
        add_region(image, &image->core->mappings.items[i]);
    fuzz_check(image->words > 0, "the image has no memory that can be written");
    image->ops = *image->core->ops;
    image->read_core = image->ops.memory.read;
    image->ops.memory.read = image_read;
    image->ops.residency.pages = image_residency;
    image->ops.residency.absent_until = NULL;
    image->core->ops = &image->ops;
    image->core->residency.known = true;
}

void image_use(struct image *image)
{
    current = image;
}

static void apply(const struct image *image, const struct image_patch *p, uint64_t place, uint64_t *word)
{
    uint64_t pointer = word_address(image, p->other) + (uint64_t)(int64_t)p->delta;
    switch (p->kind % 6) {
    case 0: // near to what it was
        *word += (uint64_t)(int64_t)p->delta;
        break;
    case 1:
        *word ^= UINT64_C(1) << (p->wild % 64);
        break;
    case 2: // a pointer to somewhere
        *word = pointer;
        break;
    case 3: // the same, as safe-linking has it
        *word = (place >> 12) ^ pointer;
        break;
    case 4:
        *word = (uint64_t)(int64_t)p->delta << (p->wild % 64);
        break;
    default:
        *word = (uint64_t)p->wild << 4 | (p->delta & 7);
        break;
    }
}

void image_try(struct image *image, const uint8_t *data, size_t size, void (*take_snapshot)(struct image *image))
{
    struct {
        uint8_t *bytes;
        uint64_t word;
    } before[IMAGE_PATCHES];
    size_t count = size / sizeof(struct image_patch);
    if (count > IMAGE_PATCHES)
        count = IMAGE_PATCHES;
    image_use(image);
    for (size_t i = 0; i < count; i++) {
        struct image_patch p;
        size_t length = WORD;
        memcpy(&p, data + i * sizeof p, sizeof p);
        uint64_t place = word_address(image, p.word);
        before[i].bytes = bytes_at(image, place, &length);
        memcpy(&before[i].word, before[i].bytes, WORD);
        uint64_t word = before[i].word;
        apply(image, &p, place, &word);
        memcpy(before[i].bytes, &word, WORD);
    }
    image->reads = 0;
    take_snapshot(image);
    while (count-- > 0)
        memcpy(before[count].bytes, &before[count].word, WORD);
}
