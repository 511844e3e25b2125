// SPDX-License-Identifier: MIT
// V8's heaps by structure. A heap consists of pages of its own ("memory chunks"): at multiples of 256 KiB, each with a header that
// says its size, where its objects begin and end, where its memory was reserved (itself), which heap it belongs to, and which space
// of that heap; and the space names the heap, too. So a header says four times where it is, and is said twice whose it is. The
// layouts were read off Node 18, 20 and 22.
#include "runtimes/v8.h"

#include "base/align.h"
#include "runtimes/elf_object.h"
#include "runtimes/regions.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    ALIGNMENT = 256 << 10,
    BATCH = 256, // headers that are read in one go
    MOST_HEAPS = 256,
    MOST_KEPT = 1 << 20, // places in memory that a clone has not got: each costs a system call, resident or not
    EVIDENCE = 256,
};
static const uint64_t LARGEST_PAGE = UINT64_C(1) << 36; // bytes: a single object may be as large

enum { HEADER_WORDS = 13 };

// What releases of V8 have where in a header: numbers of words.
static const struct header_layout {
    const char *releases;
    size_t size, heap, area_start, area_end, space, reserved_at, reserved_size;
} layouts[] = {
    {"Node 18 to 20 (V8 10 and 11)", 0, 2, 3, 4, 8, 10, 11},
    {"Node 22 (V8 12)", 2, 3, 4, 5, 9, 11, 12},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

// A header, read by a layout.
struct v8_page {
    uint64_t size, heap, area_start, area_end, space, reserved_at, reserved_size;
};

struct v8_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    const struct header_layout *layout; // of the last page found
    bool ok;                            // false: our memory ran out
    uint64_t start, end;                // of the run of pages that goes on
    uint64_t pages, bytes;
    uint64_t kept;              // places in memory that a clone has not got
    uint64_t heaps[MOST_HEAPS]; // one for each isolate
    size_t heap_count;
};

// A space begins with the address of its functions, and of its heap.
static bool is_of_heap(struct v8_search *s, uint64_t space, uint64_t heap)
{
    uint64_t words[2];
    return space % sizeof *words == 0 && as_is_runtime_memory(as_target_mapping_at(s->target, space)) &&
           as_is_runtime_memory(as_target_mapping_at(s->target, heap)) &&
           as_target_read(s->target, space, words, sizeof words) && words[1] == heap;
}

static bool fits(struct v8_search *s, uint64_t at, const struct v8_page *p)
{
    return p->reserved_at == at && p->size > 0 && p->size <= LARGEST_PAGE && p->size % s->target->page_size == 0 &&
           p->size <= UINT64_MAX - at && p->reserved_size >= p->size && p->area_start > at &&
           p->area_start < p->area_end && p->area_end <= at + p->size && is_of_heap(s, p->space, p->heap);
}

// Is a page at `at`, by any layout?
static bool is_page(struct v8_search *s, uint64_t at, const uint64_t words[HEADER_WORDS], struct v8_page *p)
{
    for (size_t i = 0; i < LAYOUTS; i++) {
        const struct header_layout *l = &layouts[i];
        *p = (struct v8_page){words[l->size],  words[l->heap],        words[l->area_start],   words[l->area_end],
                              words[l->space], words[l->reserved_at], words[l->reserved_size]};
        if (fits(s, at, p)) {
            s->layout = l;
            return true;
        }
    }
    return false;
}

// Takes note of a heap. False: there are too many.
static bool add_heap(struct v8_search *s, uint64_t heap)
{
    for (size_t i = s->heap_count; i-- > 0;)
        if (s->heaps[i] == heap)
            return true;
    if (s->heap_count == MOST_HEAPS)
        return false;
    s->heaps[s->heap_count++] = heap;
    return true;
}

// Adds a run of pages as one: of what a clone has not got, only the sum over a whole mapping is known.
static void end_run(struct v8_search *s)
{
    if (s->ok && s->start < s->end)
        s->ok = as_regions_add(s->target, s->store, s->runtime, s->start, s->end, &s->bytes, s->err);
    s->start = s->end;
}

static void add_pages(struct v8_search *s, const uint64_t *places, size_t count)
{
    uint64_t headers[BATCH][HEADER_WORDS];
    struct v8_page page;
    bool read[BATCH];
    as_target_gather(s->target, places, count, sizeof *headers, headers, sizeof *headers, read);
    for (size_t i = 0; i < count && s->ok; i++) {
        const struct as_mapping *m = as_target_mapping_at(s->target, places[i]);
        if (!read[i] && m && m->out_of_reach)
            read[i] = as_target_read_kept(s->target, places[i], headers[i], sizeof *headers);
        // What lies inside a page is an object, and may look like anything.
        if (!read[i] || places[i] < s->end || !is_page(s, places[i], headers[i], &page) || !add_heap(s, page.heap))
            continue;
        s->pages++;
        if (places[i] != s->end) {
            end_run(s);
            s->start = places[i];
        }
        s->end = places[i] + page.size;
    }
}

static void search_mappings(struct v8_search *s)
{
    const struct as_target *t = s->target;
    uint64_t places[BATCH];
    size_t count = 0;
    for (size_t i = 0; i < t->mappings.count && s->ok; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        if (!as_is_runtime_memory(m))
            continue;
        for (uint64_t at = as_align_up(m->start, ALIGNMENT); s->ok && at >= m->start && at < m->end; at += ALIGNMENT) {
            s->kept += m->out_of_reach;
            if (s->kept > MOST_KEPT)
                return;
            at = m->out_of_reach ? at : as_align_up(as_target_skip_absent(s->target, at, m->end), ALIGNMENT);
            if (at < m->end)
                places[count++] = at;
            if (count == BATCH) {
                add_pages(s, places, count);
                count = 0;
            }
        }
    }
    if (s->ok)
        add_pages(s, places, count);
    end_run(s);
}

static void settle(struct v8_search *s)
{
    struct as_runtime_record *record = &s->store->runtimes.items[s->runtime];
    char text[EVIDENCE];
    snprintf(text, sizeof text,
             "%" PRIu64
             " pages have a header with their own address and the heap of the space that they name; %zu heap%s",
             s->pages, s->heap_count, s->heap_count == 1 ? "" : "s");
    record->evidence = as_strings_add(&s->store->strings, text, sizeof text);
    record->releases = as_strings_add(&s->store->strings, s->layout->releases, EVIDENCE);
    record->state = AS_REGIONS_FOUND;
    record->committed = s->bytes;
}

static bool may_have_v8(const struct as_target *t)
{
    static const char *const names[] = {"node", "libnode", "chrome", "chromium", "electron", "libcef", "deno", "libv8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (as_runtime_object_mapped(t, names[i]))
            return true;
    return false;
}

bool as_v8_find(struct as_target *t, struct as_store *store, struct as_error *err)
{
    if (!may_have_v8(t))
        return true;
    struct v8_search s = {.target = t, .store = store, .err = err, .ok = true};
    size_t first = store->regions.count;
    s.runtime = as_runtime_add(store, AS_RUNTIME_V8, AS_ROW_managed, err);
    if (s.runtime == UINT32_MAX)
        return false;
    search_mappings(&s);
    if (s.ok && s.pages > 0 && s.heap_count < MOST_HEAPS && s.kept <= MOST_KEPT)
        settle(&s);
    else if (s.ok)
        as_runtime_unproven(
            store, s.runtime, first,
            "by its name this process may run JavaScript, but no pages of V8's heap were found: there is no "
            "V8, its release is not known here (Node 18, 20 and 22 are), or the heap changed during the look. "
            "JavaScript's objects are counted in the other rows");
    return s.ok;
}
