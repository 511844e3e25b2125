// SPDX-License-Identifier: MIT
// What gives chunks a type: cores of processes that hold the structures of well-known libraries (the directory FUZZ_GRAPHS), of which each
// input changes some words (image.h), above all in the chunks that have a type. The first byte of an input says which core.
#include "fuzz.h"
#include "images.h"

#include "graph/graph.h"
#include "recognisers/recognisers.h"
#include "snapshot/snapshot.h"

#include <stdio.h>
#include <string.h>

enum {
    HEADER = 1,
    HEAD = 64,         // bytes of a chunk that say most
    MOST_SPAN = 4096,  // of a chunk that are changed at all
    LEAST_TYPED = 100, // chunks
};

// The chunks are read a few times, and all that follows from them is bounded by their number (redis.c, qt_tables.c and others).
static const uint64_t MOST_READS = UINT64_C(1) << 22;

// What a core was made for, by its name (tests/tools/fuzz_seeds.py).
static const struct {
    const char *name;
    enum as_shape shape;
} wanted[] = {
    {"dicts", AS_SHAPE_REDIS_DICT},    {"gobjects", AS_SHAPE_GOBJECT_CLASS}, {"late_dicts", AS_SHAPE_REDIS_KEYED},
    {"libraries", AS_SHAPE_GLIB_KEYS}, {"llvm", AS_SHAPE_LLVM_DENSE},        {"openssl", AS_SHAPE_LHASH},
    {"qt5", AS_SHAPE_QT_MAP},          {"qt6", AS_SHAPE_QT_TABLE},           {"types", AS_SHAPE_TREE_NODE},
    {"typed", AS_SHAPE_LIST_NODE},
};

static enum as_shape wanted_of(const char *name)
{
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (strcmp(wanted[i].name, name) == 0)
            return wanted[i].shape;
    fprintf(stderr, "%s\n", name);
    fuzz_check(false, "nobody knows what this core was made for");
    return AS_SHAPE_NONE;
}

// Adds what has a type. Returns how many chunks have the shape.
static size_t add_typed(struct image *image, const struct as_graph *g, enum as_shape shape)
{
    size_t typed = 0, found = 0;
    for (struct as_used_cursor c = as_used_begin(&g->index); as_used_next(&c);) {
        enum as_shape has = as_pattern_shape(&g->patterns, c.chunk.node);
        if (has == AS_SHAPE_NONE && !g->vtables.list.items[as_vtable_of(&g->vtables, c.chunk.node)].proven &&
            as_pattern_of(&g->patterns, c.chunk.node) == AS_PATTERN_NONE)
            continue;
        uint64_t start = c.chunk.address + AS_HEADER, length = c.chunk.size - AS_HEADER;
        image_add_head(image, start, length < HEAD ? length : HEAD);
        image_add_span(image, start, length < MOST_SPAN ? length : MOST_SPAN);
        typed++;
        found += has == shape;
    }
    fuzz_check(typed >= LEAST_TYPED, "few chunks have a type in this core");
    return found;
}

// Damage to what is not found as it is would show nothing.
static void check_image(struct fuzzed *f, const char *name)
{
    struct as_error err;
    struct as_store s;
    struct as_graph graph;
    f->typed = strcmp(name, "typed") == 0;
    fuzz_check(as_graph_open(&graph, f->image.core, as_recognisers, false, &err), "no memory for a few modules");
    const struct as_stopped_reader reader = {as_graph_read, &graph, as_graph_begin};
    struct as_snapshot_options options = {.chunk_fd = -1, .malloc = &f->malloc, .reader = &reader};
    bool ok = as_snapshot_make(f->image.core, &options, &s, &err) && as_graph_find_shapes(&graph, NULL, &err);
    size_t found = ok ? add_typed(&f->image, &graph, wanted_of(name)) : 0;
    as_store_free(&s);
    as_graph_free(&graph);
    if (found == 0)
        fprintf(stderr, "%s\n", name);
    fuzz_check(found > 0, "what this core was made for has no type");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    images_open("FUZZ_GRAPHS", check_image);
    return 0;
}

static void take_graph_snapshot(struct image *image)
{
    const struct fuzzed *f = (const struct fuzzed *)image;
    fuzz_take_snapshot(image->core, (struct fuzz_wish){.malloc = &f->malloc, .types = f->typed});
    fuzz_check(image->reads <= MOST_READS, "a snapshot reads without end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= HEADER)
        image_try(&images_choose(data[0])->image, data + HEADER, size - HEADER, take_graph_snapshot);
    return 0;
}
