// SPDX-License-Identifier: MIT
// cppgc's heap by structure. It consists of pages at multiples of 128 KiB. A page begins with the addresses of its heap and of its
// space. The space leads to a part of the heap, which leads back to the heap. Pages of small objects have 128 KiB, one of a large object
// has the bytes that its header says. (Read off Chromium 156.)
#include "runtimes/cppgc.h"

#include "base/align.h"
#include "runtimes/regions.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    PAGE = 128 << 10,
    WORD = sizeof(uint64_t),
    MOST_PLACES = 1 << 20,

    EVIDENCE = 256,
};
static const uint64_t LARGEST_PAGE = UINT64_C(1) << 36; // bytes: a single object may be as large

// Numbers of words: of a page's header, and of a space.
enum { HANDLE, SPACE, KIND, LARGE_SIZE = 7, HEADER_WORDS };
enum { SPACE_HEAP = 1, VECTOR_START, VECTOR_END, VECTOR_ROOM, SPACE_WORDS };
enum { OF_SMALL_OBJECTS, OF_A_LARGE_OBJECT };
enum { HEAP_TO_HANDLE = 8, HEAP_TO_RAW = 16 }; // bytes from a heap's address to what a header and a space lead to

struct cppgc_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    uint64_t pages, bytes;
    uint64_t places; // that are left to inspect
};

static bool read_memory(struct cppgc_search *s, uint64_t address, void *out, size_t length)
{
    return address % WORD == 0 && as_is_runtime_memory(as_target_mapping_at(s->target, address)) &&
           as_target_read(s->target, address, out, length);
}

// Can these be the bounds of a space's vector of pages? (While a collection sweeps, a page may be in no vector.)
static bool has_vector(const uint64_t space[SPACE_WORDS])
{
    uint64_t start = space[VECTOR_START], end = space[VECTOR_END], room = space[VECTOR_ROOM];
    return start <= end && end <= room && (end - start) % WORD == 0 && (room - start) % WORD == 0;
}

// Bytes of the page at `at`; 0: there is none.
static uint64_t page_at(struct cppgc_search *s, uint64_t at)
{
    uint64_t page[HEADER_WORDS], space[SPACE_WORDS], heap;
    if (!as_target_read(s->target, at, page, sizeof page) || (uint32_t)page[KIND] > OF_A_LARGE_OBJECT ||
        !read_memory(s, page[SPACE], space, sizeof space) ||
        page[HANDLE] != space[SPACE_HEAP] - HEAP_TO_RAW + HEAP_TO_HANDLE)
        return 0;
    if (!read_memory(s, space[SPACE_HEAP], &heap, sizeof heap) || heap != space[SPACE_HEAP] - HEAP_TO_RAW ||
        !has_vector(space))
        return 0;
    if ((uint32_t)page[KIND] == OF_SMALL_OBJECTS)
        return PAGE;
    return page[LARGE_SIZE] < LARGEST_PAGE ? as_align_up(page[LARGE_SIZE] + HEADER_WORDS * WORD, PAGE) : 0;
}

// Adds all pages of a mapping. False: our memory ran out.
static bool search_mapping(struct cppgc_search *s, const struct as_mapping *m)
{
    struct as_target *t = s->target;
    for (uint64_t at = as_align_up(m->start, PAGE); at >= m->start && at < m->end && s->places-- > 0;) {
        at = as_align_up(as_target_skip_absent(t, at, m->end), PAGE);
        uint64_t size = at < m->end ? page_at(s, at) : 0;
        size = size < m->end - at ? size : m->end - at;
        if (size > 0 && at < m->end && !as_regions_add(t, s->store, s->runtime, at, at + size, &s->bytes, s->err))
            return false;
        s->pages += size > 0;
        at += size > PAGE ? as_align_up(size, PAGE) : PAGE;
    }
    return true;
}

static void keep_cppgc_or_drop(struct cppgc_search *s)
{
    struct as_runtime_record *record = &s->store->runtimes.items[s->runtime];
    char text[EVIDENCE];
    snprintf(text, sizeof text, "%" PRIu64 " pages name their heap and a space, and the space leads to the same heap",
             s->pages);
    record->evidence = as_strings_add(&s->store->strings, text, sizeof text);
    record->releases = as_strings_add(&s->store->strings, "Chromium 156", EVIDENCE);
    record->state = AS_REGIONS_FOUND;
}

bool as_cppgc_find(struct as_target *t, struct as_store *store, struct as_error *err)
{
    struct cppgc_search s = {.target = t, .store = store, .err = err, .places = MOST_PLACES};
    size_t first = store->regions.count;
    bool ok = true;
    s.runtime = as_runtime_add(store, AS_RUNTIME_V8_CPPGC, AS_ROW_managed, err);
    if (s.runtime == UINT32_MAX)
        return false;
    for (size_t i = 0; i < t->mappings.count && ok; i++)
        if (as_is_runtime_memory(&t->mappings.items[i]) && !t->mappings.items[i].out_of_reach)
            ok = search_mapping(&s, &t->mappings.items[i]);
    if (ok && s.pages > 0 && s.places > 0) {
        keep_cppgc_or_drop(&s);
        return as_regions_sort(store, first, err);
    }
    store->regions.count = first;
    store->runtimes.count--; // ours
    return ok;
}
