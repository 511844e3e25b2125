// SPDX-License-Identifier: MIT
#include "support/found.h"

static bool collect(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t count)
{
    struct found *f = ((struct found_sink *)sink)->found;
    CHECK(f->count + count <= FOUND_CHUNKS);
    memcpy(f->chunks + f->count, batch, count * sizeof *batch);
    f->count += count;
    return true;
}

struct found_sink found_sink(struct found *f)
{
    return (struct found_sink){.sink = {.chunks = collect}, .found = f};
}

struct found *found_heaps(struct mock *m)
{
    struct found *f = calloc(1, sizeof *f);
    struct as_error err = {0};
    CHECK(f);
    CHECK(as_heaps_find(&m->target, &m->malloc, m->foreign, &f->heaps, &err), "%s", err.text);
    return f;
}

static void note_fault(void *context, uint64_t address, const char *what)
{
    struct found *f = context;
    as_fault_note(&f->heaps, UINT32_MAX, UINT32_MAX, address, what);
}

static void mark_fastbins(struct found *f, size_t first, const as_address_vec *members)
{
    for (size_t i = first; i < f->count; i++)
        for (size_t k = 0; k < members->count; k++)
            if (f->chunks[i].address == members->items[k] && as_chunk_class_of(f->chunks[i]) == AS_CHUNK_IN_USE)
                f->chunks[i].tagged = as_chunk_size(f->chunks[i]) | AS_CHUNK_FASTBIN;
}

static void check_tiles(const struct found *f, size_t first, const struct as_heap *heap)
{
    uint64_t at = heap->start;
    for (size_t i = first; i < f->count; i++) {
        CHECK_EQUAL(f->chunks[i].address, at);
        at += as_chunk_size(f->chunks[i]);
    }
    CHECK_EQUAL(at, heap->end);
}

static void walk_arena(struct found *f, uint32_t arena, struct as_window *w)
{
    struct as_heaps *h = &f->heaps;
    struct as_fastbin_candidates notes = {0};
    struct found_sink sink = found_sink(f);
    struct as_error err = {0};
    size_t first_of_arena = f->count;
    uint64_t torn = f->torn;
    as_fastbin_candidates_begin(&notes, h, arena);
    for (uint32_t i = 0; i < h->heaps.count; i++) {
        bool had_top = h->heaps.items[i].has_top;
        size_t first = f->count;
        if (h->heaps.items[i].arena != arena)
            continue;
        CHECK(as_walk_heap(h, i, w, &sink.sink, &notes, &f->torn));
        check_tiles(f, first, &h->heaps.items[i]);
        if (had_top && !h->heaps.items[i].has_top)
            CHECK(as_main_segments_find_after(h, i, w, &err), "%s", err.text);
    }
    as_address_vec members = {0};
    CHECK(as_fastbin_members_resolve(&h->arenas.items[arena], &notes, &members, note_fault, f, &err), "%s", err.text);
    mark_fastbins(f, first_of_arena, &members);
    as_vec_free(&members);
    as_fastbin_candidates_free(&notes);
    if (f->torn == torn)
        as_bins_check(h, arena);
}

struct found *found_all(struct mock *m)
{
    struct found *f = found_heaps(m);
    struct as_window w;
    struct as_error err = {0};
    CHECK(as_window_open(&w, &m->target, &err), "%s", err.text);
    for (uint32_t i = 0; i < f->heaps.arenas.count; i++)
        walk_arena(f, i, &w);
    as_window_close(&w);
    as_caches_check(&f->heaps);
    return f;
}

void found_free(struct found *f)
{
    as_heaps_free(&f->heaps);
    free(f);
}

int found_class(const struct found *f, uint64_t chunk)
{
    for (size_t i = 0; i < f->count; i++)
        if (f->chunks[i].address == chunk)
            return (int)as_chunk_class_of(f->chunks[i]);
    return FOUND_NOTHING;
}

size_t found_count(const struct found *f, enum as_chunk_class class)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++)
        count += as_chunk_class_of(f->chunks[i]) == class;
    return count;
}

uint64_t found_bytes(const struct found *f, enum as_chunk_class class)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < f->count; i++)
        bytes += as_chunk_class_of(f->chunks[i]) == class ? as_chunk_size(f->chunks[i]) : 0;
    return bytes;
}

size_t found_faults(const struct found *f, const char *text)
{
    size_t count = 0;
    for (size_t i = 0; i < f->heaps.faults.count; i++)
        count += strstr(f->heaps.faults.items[i].what, text) != NULL;
    return count;
}
