// SPDX-License-Identifier: MIT
// The walker on a heap that was real: a core of the truth harness (FUZZ_IMAGE), of which each input changes some words
// (image.h), so that a few bytes wreck a heap in any way.
#include "fuzz.h"
#include "image.h"

#include "libc/libc.h"
#include "snapshot/snapshot.h"

#include <stdlib.h>

#define SOURCES (1u << AS_LAYOUT_RELOCATION | 1u << AS_LAYOUT_SCAN)

static struct image image;

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

// Half of all patches go where malloc's own structures lie.
static void find_structures(void)
{
    struct as_error err;
    struct as_store s;
    struct as_snapshot_options options = {.chunk_fd = -1, .allowed_sources = SOURCES};
    fuzz_check(as_snapshot_make(image.core, &options, &s, &err) && s.mallocs.count > 0, "the image holds no malloc");
    for (size_t i = 0; i < s.mallocs.count; i++)
        image_add_span(&image, s.mallocs.items[i].mp, 144);
    for (size_t i = 0; i < s.arenas.count; i++) {
        image_add_span(&image, s.arenas.items[i].address, 2200);
        image_add_span(&image, s.arenas.items[i].top, 16);
    }
    for (size_t i = 0; i < s.heaps.count; i++)
        image_add_span(&image, s.heaps.items[i].start, 48);
    for (size_t i = 0; i < s.threads.count; i++)
        image_add_span(&image, s.threads.items[i].tcache, 640);
    as_store_free(&s);
    fuzz_check(image.span_words > 0, "no structure of malloc's was found");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    image_open(&image, getenv("FUZZ_IMAGE"));
    image.ops.residency.pages = image_residency;
    image_use(&image);
    find_structures();
    return 0;
}

static void take_malloc_snapshot(struct image *of)
{
    fuzz_take_snapshot(of->core, (struct fuzz_wish){.sources = SOURCES});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    image_try(&image, data, size, take_malloc_snapshot);
    return 0;
}
