// SPDX-License-Identifier: MIT
#define _GNU_SOURCE
#include "fuzz.h"

#include "capture/capture.h"
#include "cli/summary.h"
#include "dump/dump.h"
#include "graph/leaks.h"
#include "graph/tree.h"

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

// What is held, what is lost, and by whom: every byte of chunks in use is one or the other.
static void check_graph(const struct as_graph *g)
{
    struct as_error err;
    struct as_leaks leaks;
    struct as_owners owners;
    struct as_dominators d;
    struct as_tree tree;
    fuzz_check(as_leaks_find(&leaks, g, &err) && as_owners_find(&owners, &g->roots, &err) &&
                   as_dominators_find(&d, &g->edges, &g->roots, &owners, &err) &&
                   as_dominators_add_up(&d, &g->index, &err) && as_tree_grow(&tree, g, &d, &err),
               "no memory for a small graph");
    fuzz_check(tree.unreached == leaks.sums[AS_LEAK_DIRECT].bytes + leaks.sums[AS_LEAK_INDIRECT].bytes,
               "what is lost is not what no owner has");
    uint64_t bytes = tree.unreached;
    for (size_t i = 1; i < tree.branches.count; i++)
        bytes += tree.branches.items[i].bytes;
    fuzz_check(bytes == g->index.chunk_bytes, "the branches have not all bytes");
    as_tree_free(&tree);
    as_dominators_free(&d);
    as_owners_free(&owners);
    as_leaks_free(&leaks);
}

void fuzz_look(struct as_target *target, uint32_t allowed_sources)
{
    struct as_error err;
    struct as_dump_writer writer;
    struct as_store store;
    struct as_graph graph = {0};
    const struct as_moment_reader reader = {as_graph_read, &graph};
    fuzz_check(as_dump_begin(&writer, NULL, &err), "no dump in memory");
    struct as_capture_options options = {.chunk_fd = writer.file.fd,
                                         .chunk_start = AS_DUMP_DATA_START,
                                         .reader = &reader,
                                         .allowed_sources = allowed_sources};
    bool ok = as_capture(target, &options, &store, &err);
    fuzz_check(ok || (err.code != AS_OK && err.code != AS_INTERNAL), "a failure without a reason");
    if (ok)
        check_graph(&graph);
    as_graph_free(&graph);
    if (ok) {
        struct as_dump_file dump = {0};
        fuzz_check(as_dump_finish(&writer, &store, &err), "the dump cannot be written");
        ok = as_dump_open_fd(&dump, writer.file.fd, "the dump", &err);
        fuzz_check(ok, ok ? "" : err.text);
        check_cover(&dump.view);
        fuzz_render(&dump.view);
        as_dump_file_close(&dump);
    }
    as_store_free(&store);
    as_dump_close(&writer);
}
