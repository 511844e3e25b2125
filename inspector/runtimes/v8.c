// SPDX-License-Identifier: MIT
// V8's heaps by structure. A heap consists of pages of its own ("memory chunks"): at multiples of 256 KiB, each with a header. The
// header, or a descriptor that it leads to, says its size, where its objects begin and end, where its memory was reserved (itself),
// which heap it belongs to, and which space of that heap; and the space names the heap, too. So a page says four times where it is,
// and is said twice whose it is. The layouts were read off Node 18, 20, 22 and 24.
//
// A V8 with a sandbox (Chromium's) has the descriptors out of reach of its headers: a header has a number instead, which is the page's
// place in a range ("cage"): in multiples of 256 KiB, from the beginning of the 4 GiB for objects, of the 4 GiB for what the sandbox must
// not reach (numbers from 0x4000 on), or of the range for code (from 0x5000 on). (Read off Chromium 156.)
#include "runtimes/finder.h"

#include "base/align.h"
#include "runtimes/cppgc.h"
#include "runtimes/elf_object.h"
#include "runtimes/regions.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    ALIGNMENT = 256 << 10,
    BATCH = 256, // headers that are read in one go
    MOST_HEAPS = 256,
    MOST_CODE_RANGES = 64,
    MOST_KEPT = 1 << 20, // places in memory that a clone has not got: each costs a system call, resident or not
    EVIDENCE = 256,
};
static const uint64_t LARGEST_PAGE = UINT64_C(1) << 36; // bytes: a single object may be as large

enum { HEADER_WORDS = 13, DESCRIPTOR = 1, FIRST_OBJECT = 2 };

// What releases of V8 have where: numbers of words of a header, or of the descriptor that its second word leads to.
static const struct header_layout {
    const char *releases;
    size_t size, heap, area_start, area_end, space, reserved_at, reserved_size;
    bool apart; // in a descriptor
} layouts[] = {
    {"Node 18 to 20 (V8 10 and 11)", 0, 2, 3, 4, 8, 10, 11, false},
    {"Node 22 (V8 12)", 2, 3, 4, 5, 9, 11, 12, false},
    {"Node 24 (V8 13)", 6, 8, 9, 7, 10, 1, 2, true},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

// The ranges of a V8 with a sandbox.
enum {
    FLAGS = 1 << 24,  // more than a header's flags
    TRUSTED = 0x4000, // the first number of a page that the sandbox must not reach
    CODE = 0x5000,    // and of a page of code
    MOST_CODE = 0x1000,
};
static const uint64_t CAGE = UINT64_C(1) << 32; // bytes; and where it may begin
static const char *const SANDBOX = "Chromium 156 (V8 with a sandbox)";

// A header, read by a layout.
struct v8_page {
    uint64_t size, heap, area_start, area_end, space, reserved_at, reserved_size;
    bool in_code_range;
};

struct v8_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    const char *releases; // of the last page found
    bool in_cage;         // a page was told by its number
    bool ok;              // false: our memory ran out
    uint64_t start, end;  // of the run of pages that goes on
    uint64_t pages, bytes;
    uint64_t kept;              // places in memory that a clone has not got
    uint64_t heaps[MOST_HEAPS]; // one for each isolate
    size_t heap_count;
    struct as_range code[MOST_CODE_RANGES];
    size_t code_count;
};

// A space begins with the address of its functions, and of its heap.
static bool is_of_heap(struct v8_search *s, uint64_t space, uint64_t heap)
{
    uint64_t words[2];
    return space % sizeof *words == 0 && as_is_runtime_memory(as_target_mapping_at(s->target, space)) &&
           as_is_runtime_memory(as_target_mapping_at(s->target, heap)) &&
           as_target_read(s->target, space, words, sizeof words) && words[1] == heap;
}

static bool fits_page(struct v8_search *s, uint64_t at, const struct v8_page *p)
{
    return p->reserved_at == at && p->size > 0 && p->size <= LARGEST_PAGE && p->size % s->target->page_size == 0 &&
           p->size <= UINT64_MAX - at && p->reserved_size >= p->size && p->area_start > at &&
           p->area_start < p->area_end && p->area_end <= at + p->size && is_of_heap(s, p->space, p->heap);
}

// Do a header and its descriptor fit by one of the layouts?
static bool by_layout(struct v8_search *s, uint64_t at, const uint64_t words[HEADER_WORDS], struct v8_page *p)
{
    uint64_t apart[HEADER_WORDS] = {0};
    bool have = words[DESCRIPTOR] % sizeof *words == 0 &&
                as_is_runtime_memory(as_target_mapping_at(s->target, words[DESCRIPTOR])) &&
                as_target_read(s->target, words[DESCRIPTOR], apart, sizeof apart);
    AS_FOR_ITEMS(const struct header_layout, l, layouts, LAYOUTS) {
        const uint64_t *w = l->apart ? apart : words;
        *p = (struct v8_page){.size = w[l->size],
                              .heap = w[l->heap],
                              .area_start = w[l->area_start],
                              .area_end = w[l->area_end],
                              .space = w[l->space],
                              .reserved_at = w[l->reserved_at],
                              .reserved_size = w[l->reserved_size]};
        if ((have || !l->apart) && fits_page(s, at, p)) {
            const struct as_mapping *m = as_target_mapping_at(s->target, at);
            p->in_code_range = l->apart && m && (m->prot & AS_PROT_EXEC);
            s->releases = l->releases;
            return true;
        }
    }
    return false;
}

// Where the range begins in which a page at `at` has this number; UINT64_MAX: it can have no such number.
static uint64_t cage_of(const struct as_mapping *m, uint64_t at, uint64_t number)
{
    bool code = number >= CODE;
    uint64_t cage = at - (code ? number - CODE : number % TRUSTED) * ALIGNMENT;
    bool possible = code ? number - CODE < MOST_CODE && (m->prot & AS_PROT_EXEC) != 0 && cage <= at : cage % CAGE == 0;
    return possible ? cage : UINT64_MAX;
}

// Was a page of this heap found?
static bool is_known(const struct v8_search *s, uint64_t heap)
{
    for (size_t i = s->heap_count; i-- > 0;)
        if (s->heaps[i] == heap)
            return true;
    return false;
}

// Has a clone not got this? The agent inspects no clone.
static bool is_out_of_reach(const struct as_mapping *m)
{
#ifdef AS_AGENT
    return m && false;
#else
    return m && m->out_of_reach;
#endif
}

static bool read_header(struct v8_search *s, uint64_t at, uint64_t words[HEADER_WORDS])
{
    const size_t size = HEADER_WORDS * sizeof *words;
    return is_out_of_reach(as_target_mapping_at(s->target, at)) ? as_target_read_kept(s->target, at, words, size)
                                                                : as_target_read(s->target, at, words, size);
}

// Does a range for objects begin here? The objects of its first page never change: it cannot be written. It has no flags and the number
// 0, and begins with the address of an object, whose lowest bit V8 sets.
static bool is_first_page(struct v8_search *s, uint64_t at)
{
    const struct as_mapping *m = as_target_mapping_at(s->target, at);
    uint64_t words[HEADER_WORDS];
    return m && m->kind == AS_MAP_ANON && !(m->prot & AS_PROT_WRITE) && read_header(s, at, words) && words[0] == 0 &&
           words[DESCRIPTOR] == 0 && (words[FIRST_OBJECT] & 1) != 0;
}

// Does more than a number speak for a page? Chromium's other heaps begin at multiples of 4 GiB, too, and hold small numbers. A page for
// objects has a first page before it in its range; a page that the sandbox must not reach has flags.
static bool is_likely(struct v8_search *s, uint64_t cage, const uint64_t words[HEADER_WORDS])
{
    if (words[DESCRIPTOR] < TRUSTED)
        return words[DESCRIPTOR] > 0 && (is_known(s, cage) || is_first_page(s, cage));
    return words[DESCRIPTOR] >= CODE || words[0] != 0;
}

// As by_layout, by the number of the page. How large it is stands in the descriptor only: what follows in the mapping is taken for the
// page's, or for that of pages behind it, as V8 alone has memory in its ranges.
static bool by_number(struct v8_search *s, uint64_t at, const uint64_t words[HEADER_WORDS], struct v8_page *p)
{
    const struct as_mapping *m = as_target_mapping_at(s->target, at);
    uint64_t cage = words[0] < FLAGS && m ? cage_of(m, at, words[DESCRIPTOR]) : UINT64_MAX;
    if (cage == UINT64_MAX || !is_likely(s, cage, words))
        return false;
    uint64_t end = words[DESCRIPTOR] < CODE && m->end > cage + CAGE ? cage + CAGE : m->end;
    *p = (struct v8_page){.size = end - at, .heap = cage, .in_code_range = (m->prot & AS_PROT_EXEC) != 0};
    s->releases = SANDBOX;
    return true;
}

// Is a page at `at`?
static bool is_page(struct v8_search *s, uint64_t at, const uint64_t words[HEADER_WORDS], struct v8_page *p)
{
    if (by_layout(s, at, words, p))
        return true;
    bool in_cage = by_number(s, at, words, p);
    s->in_cage |= in_cage;
    return in_cage;
}

// Takes note of a heap. False: there are too many.
static bool add_heap(struct v8_search *s, uint64_t heap)
{
    if (is_known(s, heap))
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

// Takes note of the mapping that a page of code lies in: from Node 24 on, V8 makes one mapping of the whole range for code, and has its
// built-in code there, too.
static void add_code_range(struct v8_search *s, uint64_t at)
{
    const struct as_mapping *m = as_target_mapping_at(s->target, at);
    if (s->code_count < MOST_CODE_RANGES && (s->code_count == 0 || s->code[s->code_count - 1].start != m->start))
        s->code[s->code_count++] = (struct as_range){m->start, m->end};
}

static void add_pages(struct v8_search *s, const uint64_t *places, size_t count)
{
    uint64_t headers[BATCH][HEADER_WORDS];
    struct v8_page page;
    bool read[BATCH];
    as_target_gather(s->target, places, count, sizeof *headers, headers, sizeof *headers, read);
    for (size_t i = 0; i < count && s->ok; i++) {
        if (!read[i] && is_out_of_reach(as_target_mapping_at(s->target, places[i])))
            read[i] = read_header(s, places[i], headers[i]);
        // What lies inside a page is an object, and may resemble anything.
        if (!read[i] || places[i] < s->end || !is_page(s, places[i], headers[i], &page) || !add_heap(s, page.heap))
            continue;
        s->pages++;
        if (page.in_code_range) {
            add_code_range(s, places[i]);
            continue;
        }
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
    AS_FOR_EACH_WHILE(s->ok, const struct as_mapping, m, &t->mappings) {
        if (!as_is_runtime_memory(m))
            continue;
        for (uint64_t at = as_align_up(m->start, ALIGNMENT); s->ok && at >= m->start && at < m->end; at += ALIGNMENT) {
            if (is_out_of_reach(m) && ++s->kept > MOST_KEPT)
                return;
            at = is_out_of_reach(m) ? at : as_align_up(as_target_skip_absent(s->target, at, m->end), ALIGNMENT);
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

static void keep_v8_or_drop(struct v8_search *s)
{
    struct as_runtime_record *record = &s->store->runtimes.items[s->runtime];
    char text[EVIDENCE];
    snprintf(text, sizeof text,
             s->in_cage ? "%" PRIu64 " runs of pages have a header with their own place in a range of V8's; %zu range%s"
                        : "%" PRIu64 " pages have a header with their own address and the heap of the space that "
                          "they name; %zu heap%s",
             s->pages, s->heap_count, s->heap_count == 1 ? "" : "s");
    record->evidence = as_strings_add(&s->store->strings, text, sizeof text);
    record->releases = as_strings_add(&s->store->strings, s->releases, EVIDENCE);
    record->state = AS_REGIONS_FOUND;
    record->committed = s->in_cage ? AS_UNKNOWN : s->bytes;
}

// Adds a record of the ranges for code, if there are.
static bool add_code(struct v8_search *s)
{
    size_t first = s->store->regions.count;
    uint64_t bytes = 0;
    if (s->code_count == 0)
        return true;
    uint32_t runtime = as_runtime_add(s->store, AS_RUNTIME_V8_CODE, AS_ROW_managed, s->err);
    for (size_t i = 0; i < s->code_count; i++)
        if (runtime == UINT32_MAX ||
            !as_regions_add(s->target, s->store, runtime, s->code[i].start, s->code[i].end, &bytes, s->err))
            return false;
    struct as_runtime_record *record = &s->store->runtimes.items[runtime];
    record->evidence =
        as_strings_add(&s->store->strings, "a page of the heap lies in the executable mapping", EVIDENCE);
    record->releases = as_strings_add(&s->store->strings, s->releases, EVIDENCE);
    record->state = AS_REGIONS_FOUND;
    return as_regions_sort(s->store, first, s->err);
}

static bool may_have_v8(const struct as_target *t)
{
    static const char *const names[] = {"node", "libnode", "chrome", "chromium", "electron", "libcef", "deno", "libv8"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (as_runtime_object_mapped(t, names[i]))
            return true;
    return false;
}

bool as_v8_find(const struct as_finder_input *in)
{
    if (!may_have_v8(in->target))
        return true;
    struct v8_search s = {.target = in->target, .store = in->store, .err = in->err, .ok = true};
    size_t first = in->store->regions.count;
    s.runtime = as_runtime_add(in->store, AS_RUNTIME_V8, AS_ROW_managed, in->err);
    if (s.runtime == UINT32_MAX)
        return false;
    search_mappings(&s);
    if (s.ok && s.pages > 0 && s.heap_count < MOST_HEAPS && s.kept <= MOST_KEPT) {
        keep_v8_or_drop(&s);
        bool found = add_code(&s);
#ifndef AS_AGENT
        found = found && as_cppgc_find(in->target, in->store, in->err);
#endif
        return found;
    }
    if (s.ok)
        as_runtime_unproven(
            in->store, s.runtime, first,
            "by its name this process may run JavaScript, but no pages of V8's heap were found: there is no "
            "V8, its release is not known here (Node 18 to 24 and Chromium 156 are), or the heap changed during the "
            "snapshot. "
            "JavaScript's objects are counted in the other rows");
    return s.ok;
}
