// SPDX-License-Identifier: MIT
#include "images.h"

#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

static struct fuzzed images[MOST_IMAGES];
static int image_count;

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

static void open_image(const char *directory, const char *name, void (*prepare)(struct fuzzed *f, const char *name))
{
    struct as_error err;
    char path[4096];
    struct fuzzed *f = &images[image_count++];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    image_open(&f->image, path);
    image_use(&f->image);
    fuzz_check(as_malloc_find(f->image.core, AS_LAYOUT_ANY & ~(1u << AS_LAYOUT_DWARF), &f->malloc, &err),
               "no malloc could be searched for");
    count_resident(f->image.core);
    prepare(f, name);
}

static int is_core(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

void images_open(const char *variable, void (*prepare)(struct fuzzed *f, const char *name))
{
    const char *directory = getenv(variable);
    struct dirent **entries;
    int count = directory ? scandir(directory, &entries, is_core, alphasort) : -1;
    if (count <= 0 || count > MOST_IMAGES) {
        fprintf(stderr, "%s must name a directory of cores (tests/tools/fuzz_seeds.py makes it)\n", variable);
        exit(1);
    }
    for (int i = 0; i < count; i++) {
        open_image(directory, entries[i]->d_name, prepare);
        free(entries[i]);
    }
    free(entries);
}

struct fuzzed *images_choose(uint8_t byte)
{
    return &images[byte % image_count];
}
