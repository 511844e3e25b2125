// SPDX-License-Identifier: MIT
// The finders of runtimes' heaps, and what counts objects in them: cores of processes that have such heaps, real ones and forged
// ones (the directory FUZZ_RUNTIMES), of which each input changes some words (image.h). The first byte of an input says which core, the
// second what is wanted of the snapshot.
#include "fuzz.h"
#include "images.h"

#include "snapshot/snapshot.h"

#include <stdio.h>

enum { HEADER = 2, HEAD = 64 };

// A search ends after a number of steps that depends on the size of the target alone. An image of these is read a few thousand times;
// this is the bound of the finders, FREE_SNAPSHOTS of cpython.c and others, several times.
static const uint64_t MOST_READS = UINT64_C(1) << 23;

static bool objects;

// What a heap consists of, and the parts that are alike: each begins with what says so.
static void add_heads(struct image *image, const struct as_store *s)
{
    for (size_t i = 0; i < s->ruby.count; i++)
        image_add_head(image, s->ruby.items[i].address, HEAD);
    for (size_t i = 0; i < s->regions.count; i++) {
        const struct as_region_record *r = &s->regions.items[i];
        uint64_t pool = s->runtimes.items[r->runtime].pool_size;
        for (uint64_t at = 0; at < r->size; at += pool == AS_UNKNOWN ? r->size : pool)
            image_add_head(image, r->address + at, HEAD);
    }
}

// Damage to what is not found as it is would show nothing.
static void check_image(struct fuzzed *f, const char *name)
{
    struct as_error err;
    struct as_store s;
    struct as_snapshot_options options = {.chunk_fd = -1, .malloc = &f->malloc};
    image_add_content(&f->image);
    bool found = as_snapshot_make(f->image.core, &options, &s, &err) && s.regions.count + s.ruby.count > 0;
    add_heads(&f->image, &s);
    as_store_free(&s);
    if (!found)
        fprintf(stderr, "%s\n", name);
    fuzz_check(found, "no heap of a runtime is found in this core");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    images_open("FUZZ_RUNTIMES", check_image);
    return 0;
}

static void take_objects_snapshot(struct image *image)
{
    const struct fuzzed *f = (const struct fuzzed *)image;
    fuzz_take_snapshot(image->core, (struct fuzz_wish){.malloc = &f->malloc, .objects = objects});
    fuzz_check(image->reads <= MOST_READS, "a snapshot reads without end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER)
        return 0;
    objects = data[1] & 3; // the graph takes longer
    image_try(&images_choose(data[0])->image, data + HEADER, size - HEADER, take_objects_snapshot);
    return 0;
}
