// SPDX-License-Identifier: MIT
// The finders of runtimes' heaps, and what counts objects in them: cores of processes that have such heaps, real ones and forged
// ones (the directory FUZZ_RUNTIMES), of which each input changes some words (image.h). The first byte of an input says which core, the
// second what is wanted of the look.
#include "fuzz.h"
#include "image.h"

#include "capture/capture.h"
#include "libc/libc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IMAGES = 24, HEADER = 2, HEAD = 64 };

// A search ends after a number of steps that depends on the size of the target alone. An image of these is read a few thousand times;
// this is the bound of the finders, FREE_LOOKS of cpython.c and others, several times.
static const uint64_t MOST_READS = UINT64_C(1) << 23;

static struct fuzzed {
    struct image image;
    struct as_malloc malloc;
} images[MOST_IMAGES];
static int image_count;
static bool objects;

// What the kernel would count, so that the ledger's rows have something to add up to.
static void count_resident(struct as_target *t)
{
    t->counts.rss = 0;
    for (size_t i = 0; i < t->mappings.count; i++) {
        struct as_mapping *m = &t->mappings.items[i];
        m->rss = m->anonymous = m->swap = 0;
        for (uint64_t at = m->start; at < m->end; at += t->page_size) {
            uint8_t page;
            struct as_error err;
            if (!(m->prot & AS_PROT_WRITE) || m->end - m->start > UINT64_C(1) << 30)
                break;
            fuzz_check(t->ops->residency.pages(t, at, at + t->page_size, &page, &err), "no residency");
            m->rss += page & AS_RES_PRESENT ? t->page_size : 0;
        }
        m->anonymous = m->rss;
        t->counts.rss += m->rss;
    }
}

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
    struct as_capture_options options = {.chunk_fd = -1, .malloc = &f->malloc};
    bool found = as_capture(f->image.core, &options, &s, &err) && s.regions.count + s.ruby.count > 0;
    add_heads(&f->image, &s);
    as_store_free(&s);
    if (!found)
        fprintf(stderr, "%s\n", name);
    fuzz_check(found, "no heap of a runtime is found in this core");
}

static void open_image(const char *directory, const char *name)
{
    struct as_error err;
    char path[4096];
    struct fuzzed *f = &images[image_count++];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    image_open(&f->image, path);
    image_add_content(&f->image);
    image_use(&f->image);
    fuzz_check(as_malloc_find(f->image.core, AS_LAYOUT_ANY & ~(1u << AS_LAYOUT_DWARF), &f->malloc, &err),
               "no malloc could be looked for");
    count_resident(f->image.core);
    check_image(f, name);
}

static int is_core(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    const char *directory = getenv("FUZZ_RUNTIMES");
    struct dirent **entries;
    int count = directory ? scandir(directory, &entries, is_core, alphasort) : -1;
    if (count <= 0 || count > MOST_IMAGES) {
        fprintf(stderr, "FUZZ_RUNTIMES must name a directory of cores (tests/tools/fuzz_seeds.py makes it)\n");
        exit(1);
    }
    for (int i = 0; i < count; i++) {
        open_image(directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

static void look(struct image *image)
{
    const struct fuzzed *f = (const struct fuzzed *)image;
    fuzz_look(image->core, (struct fuzz_wish){.malloc = &f->malloc, .objects = objects});
    fuzz_check(image->reads <= MOST_READS, "a look reads without end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < HEADER)
        return 0;
    objects = data[1] & 3; // the graph takes longer
    image_try(&images[data[0] % image_count].image, data + HEADER, size - HEADER, look);
    return 0;
}
