// SPDX-License-Identifier: MIT
#include "fuzz.h"

#include "cli/summary/summary.h"
#include "dump/dump.h"
#include "graph/dominators.h"
#include "graph/graph.h"
#include "graph/leaks.h"
#include "graph/type_tree.h"
#include "ledger/ledger.h"
#include "recognisers/recognisers.h"
#include "snapshot/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int file = -1;

int fuzz_file(const uint8_t *data, size_t size)
{
    if (file < 0)
        file = memfd_create("fuzz", MFD_CLOEXEC);
    fuzz_check(file >= 0 && ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size,
               "no file in memory");
    return file;
}

const char *fuzz_file_name(void)
{
    static char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return name;
}

void fuzz_check(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

void fuzz_render(const struct as_view *view)
{
    static FILE *nowhere;
    struct as_error err;
    if (!nowhere)
        nowhere = fopen("/dev/null", "w");
    as_summary_json(nowhere, view, true, &err);
    for (int plain = 0; plain < 2; plain++)
        as_summary_table(nowhere, view, &(struct as_table_style){.columns = 80, .colour = !plain, .ascii = plain},
                         &err);
}

// Every byte of a heap is in one chunk and in one count of one page.
static void check_cover(const struct as_view *v)
{
    for (uint64_t i = 0; i < v->heap_count; i++) {
        const struct as_heap_record *heap = &v->heaps[i];
        uint64_t chunks = 0;
        uint64_t pages = 0;
        for (uint64_t k = 0; k < heap->chunk_count; k++)
            chunks += v->chunks[heap->first_chunk + k] & ((1u << AS_CHUNK_SIZE_BITS) - 1);
        for (uint64_t k = 0; k < heap->page_count; k++) {
            const struct as_page_record *p = &v->pages[heap->first_page + k];
            pages += (uint64_t)p->in_use + p->tcache + p->fastbin + p->binned + p->top + p->metadata + p->unknown;
        }
        fuzz_check(chunks * AS_UNIT == heap->end - heap->start, "the chunks of a heap do not cover it");
        fuzz_check(pages * AS_UNIT == heap->end - heap->start, "the pages of a heap do not cover it");
        for (uint64_t k = 0; k < i; k++)
            fuzz_check(v->heaps[k].end <= heap->start || v->heaps[k].start >= heap->end, "two heaps overlap");
    }
}

// The regions of a runtime lie one behind the other, each within its mapping's reach; and only a runtime that was found has any.
static void check_regions(const struct as_view *v)
{
    for (uint64_t i = 0; i < v->region_count; i++) {
        const struct as_region_record *r = &v->regions[i], *next = r + 1;
        fuzz_check(v->runtimes[r->runtime].state == AS_REGIONS_FOUND, "a runtime that was not found has a region");
        fuzz_check(r->resident == AS_UNKNOWN || r->resident <= r->size, "more of a region is resident than there is");
        fuzz_check(i + 1 == v->region_count || next->runtime != r->runtime || next->address >= r->address + r->size,
                   "two regions of a runtime overlap");
    }
}

// The blocks in use of a runtime are those of its size classes, and where its objects were counted, they and the other blocks.
static void check_blocks(const struct as_view *v, uint32_t runtime)
{
    const struct as_runtime_record *record = &v->runtimes[runtime];
    uint64_t in_use = 0, classes = 0, objects = record->other_bytes;
    for (uint64_t i = 0; i < v->region_count; i++)
        if (v->regions[i].runtime == runtime && v->regions[i].in_use != AS_UNKNOWN)
            in_use += v->regions[i].in_use;
    for (uint64_t i = 0; i < v->size_class_count; i++)
        if (v->size_classes[i].runtime == runtime)
            classes += v->size_classes[i].in_use * v->size_classes[i].size;
    for (uint64_t i = 0; i < v->type_count; i++)
        if (v->types[i].runtime == runtime)
            objects += v->types[i].bytes + v->types[i].owned_bytes;
    fuzz_check(in_use == classes, "the size classes have not all blocks in use");
    fuzz_check(record->objects != AS_OBJECTS_COUNTED || record->kind != AS_RUNTIME_CPYTHON || objects == in_use,
               "the objects and the other blocks are not the blocks in use");
}

// Each object of Ruby's is in a slot that is not free, and in one class.
static void check_ruby(const struct as_view *v, uint32_t runtime)
{
    uint64_t slots = 0, objects = 0;
    for (uint64_t i = 0; i < v->ruby_page_count; i++)
        slots += v->ruby[i].total_slots - v->ruby[i].free_slots;
    for (uint64_t i = 0; i < v->type_count; i++) {
        uint64_t of_classes = 0;
        objects += v->types[i].runtime == runtime ? v->types[i].count : 0;
        for (uint64_t k = 0; k < v->class_count; k++)
            of_classes += v->classes[k].type == i ? v->classes[k].count : 0;
        fuzz_check(of_classes <= v->types[i].count, "the classes of a type have more objects than the type");
    }
    fuzz_check(v->runtimes[runtime].objects != AS_OBJECTS_COUNTED || objects == slots,
               "Ruby's objects are not as many as its slots in use");
}

static void check_runtimes(const struct as_view *v)
{
    check_regions(v);
    for (uint32_t i = 0; i < v->runtime_count; i++) {
        if (v->runtimes[i].kind == AS_RUNTIME_RUBY)
            check_ruby(v, i);
        else
            check_blocks(v, i);
    }
    uint64_t sum = as_ledger_resident(&v->totals->ledger);
    for (uint64_t i = 0; i < v->warning_count; i++)
        if (v->warnings[i].code == AS_WARN_SUM) // said so
            sum = AS_UNKNOWN;
    fuzz_check(sum == AS_UNKNOWN || v->meta->rss == AS_UNKNOWN || sum == v->meta->rss, "the rows do not add up to Rss");
}

// What is held, what is lost, and by whom: every byte of chunks in use is one or the other.
static void check_graph(struct as_graph *g)
{
    struct as_error err;
    struct as_leaks leaks;
    struct as_owners owners;
    struct as_dominators d;
    struct as_tree tree;
    struct as_several several;
    fuzz_check(as_graph_find_types(g, NULL, &err) && as_graph_find_shapes(g, NULL, &err) &&
                   as_leaks_find(&leaks, g, &err) && as_leaks_add_up(&leaks, g, &err) &&
                   as_graph_leave_unused(g, &err) && as_graph_settle_objects(g, &err) &&
                   as_owners_find(&owners, &g->roots, &err) &&
                   as_dominators_find(&d, &g->edges, &g->objects, &g->roots, &owners, &err) &&
                   as_dominators_add_up(&d, &g->index, &err) && as_tree_grow(&tree, g, &d, &err) &&
                   as_several_find(&several, &d, &err),
               "no memory for a small graph");
    fuzz_check(tree.unreached == leaks.sums[AS_LEAK_DIRECT].bytes + leaks.sums[AS_LEAK_INDIRECT].bytes,
               "what is lost is not what no owner has");
    uint64_t bytes = tree.unreached;
    for (size_t i = 1; i < tree.branches.count; i++)
        bytes += tree.branches.items[i].bytes;
    fuzz_check(bytes == g->index.chunk_bytes, "the branches have not all bytes");
    for (uint32_t i = 0; i < several.count; i++)
        fuzz_check(several.leading[i].bytes <= several.bytes, "an owner leads to more than all");
    as_tree_free(&tree);
    as_dominators_free(&d);
    as_owners_free(&owners);
    as_leaks_free(&leaks);
}

void fuzz_take_snapshot(struct as_target *target, struct fuzz_wish wish)
{
    struct as_error err;
    struct as_dump_writer writer;
    struct as_store store;
    struct as_graph graph = {0};
    const struct as_stopped_reader reader = {as_graph_read, &graph, as_graph_begin};
    fuzz_check(as_dump_begin(&writer, NULL, &err), "no dump in memory");
    struct as_snapshot_options options = {.chunk_fd = writer.file.fd,
                                          .chunk_start = AS_DUMP_DATA_START,
                                          .objects = wish.objects ? &as_object_counting : NULL,
                                          .reader = wish.objects ? NULL : &reader,
                                          .profile = true,
                                          .runtime_pages = true,
                                          .malloc = wish.malloc,
                                          .allowed_sources = wish.sources};
    bool ok = wish.objects || as_graph_open(&graph, target, as_recognisers, wish.types, &err);
    fuzz_check(ok, "no memory for a few modules");
    ok = as_snapshot_make(target, &options, &store, &err);
    fuzz_check(ok || (err.code != AS_OK && err.code != AS_INTERNAL), "a failure without a reason");
    if (ok && !wish.objects) {
        // The tree of owners takes the graph's edges: one of the two.
        if (graph.index.count % 2 == 0)
            check_graph(&graph);
        else
            fuzz_check(as_graph_add_records(&store, &graph, target, NULL, NULL, &err),
                       "no memory for the graph's records");
    }
    as_graph_free(&graph);
    if (ok) {
        struct as_dump_file dump = {0};
        fuzz_check(as_dump_finish(&writer, &store, &err), "the dump cannot be written");
        ok = as_dump_open_fd(&dump, writer.file.fd, "the dump", &err);
        fuzz_check(ok, ok ? "" : err.text);
        check_cover(&dump.view);
        check_runtimes(&dump.view);
        fuzz_render(&dump.view);
        as_dump_file_close(&dump);
    }
    as_store_free(&store);
    as_dump_close(&writer);
}
