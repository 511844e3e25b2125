// SPDX-License-Identifier: MIT
// mimalloc 3 by structure. It divides memory into slices of 64 KiB, and has a map of these: a table of pointers to
// tables of 2^13 pointers, each for a slice of one of mimalloc's pages, to what describes the page. The first table's
// first pointer leads to its own end, where the table for the lowest addresses stands. A description says where the
// page's memory is from: an arena, and the slice's number in it, which must give the slice's place in the map; or a
// mapping of its own, which must have the slice. An arena begins with a description, too: its mapping, and how many
// slices it has. (src/page-map.c and include/mimalloc/types.h, read in 3.0.1 to 3.4.3)
#include "runtimes/finder.h"

#include "runtimes/ranges.h"
#include "runtimes/regions.h"
#include "runtimes/variable_words.h"

#include <inttypes.h>

enum {
    PAGE = 4096,
    SLICE_BITS = 16,
    TABLE_BITS = 13,
    TABLE = 8 << TABLE_BITS, // bytes of a table for 2^13 slices
    LEAST_TABLES = 1 << 7,   // for addresses of 36 bits
    MOST_TABLES = 1 << 28,   // of 57
    HEAD_WORDS = 16,         // at the beginning of a map that are inspected
    PAGE_WORDS = 24,         // of a description that are inspected
    PROVENANCE = 8,          // words that are before where the memory is from, at least
    ARENA_WORDS = 8,         // likewise, of an arena's
    SLICES_AT = 4,           // word of it: the number of slices, or one word further
    MOST_KINDS = 15,         // of memory
    MOST_ARENAS = 1024,
    FREE_READS = 1 << 16, // at a description or at 4 KiB, whatever the target's size; and at 4 KiB of variables
    MISMATCHES =
        8, // a thread may stand between two changes; and as many more as there are pages: 3.0 never clears the map
};

struct mimalloc3_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    const struct as_variable_words *words;
    int64_t reads_left; // that are left
    bool ok, found;     // ok false: our memory ran out
    uint64_t word, end; // the page that the map had last, and where it ends at least
    uint64_t pages, own, mismatches;
    struct {
        uint64_t at, slices; // its description, and where its slices begin
    } arenas[MOST_ARENAS];
    size_t arena_count;
    struct as_ranges ranges;
};

static bool goes_on(const struct mimalloc3_search *s)
{
    return s->ok && s->reads_left > 0 && s->mismatches <= MISMATCHES + s->pages;
}

static bool is_memory(const struct mimalloc3_search *s, uint64_t address)
{
    return address % PAGE == 0 && as_is_runtime_memory(as_target_mapping_at(s->target, address));
}

static bool add_range(struct mimalloc3_search *s, uint64_t start, uint64_t length)
{
    s->ok = s->ok && as_ranges_add(&s->ranges, start, length, s->err);
    return s->ok;
}

// Where the slices of an arena begin, whose description is at `at`: there, or from 3.6 on where the description says. It also says
// which mapping the arena has, and how many slices. 0: there is no arena.
static uint64_t slices_of(const uint64_t *words, uint64_t at)
{
    uint64_t start = words[0], size = words[1], end = start + size;
    uint64_t said = words[SLICES_AT + 1], from = said >= start && said <= at ? said : at;
    if (start > at || size % PAGE != 0 || size > UINT64_MAX - start || end <= at)
        return 0;
    uint64_t count = (end - from) >> SLICE_BITS;
    for (size_t i = SLICES_AT; i <= SLICES_AT + 2; i++)
        if (count > 0 && words[i] == count)
            return from;
    return 0;
}

// Where the slices of the arena at `at` begin; it is added, once. 0: there is no arena.
static uint64_t arena_at(struct mimalloc3_search *s, uint64_t at)
{
    uint64_t words[ARENA_WORDS];
    for (size_t i = s->arena_count; i-- > 0;)
        if (s->arenas[i].at == at)
            return s->arenas[i].slices;
    if (s->arena_count == MOST_ARENAS || --s->reads_left <= 0 || !as_target_read(s->target, at, words, sizeof words))
        return 0;
    uint64_t slices = slices_of(words, at);
    if (slices == 0 || !add_range(s, words[0], words[1]))
        return 0;
    s->arenas[s->arena_count].at = at;
    s->arenas[s->arena_count++].slices = slices;
    return slices;
}

// Are two words of a description, with a third, about where memory is from? That has what kind it is, and three flags.
static bool is_provenance(const uint64_t *words)
{
    const uint8_t *bytes = (const uint8_t *)&words[2];
    return (uint32_t)words[2] > 0 && (uint32_t)words[2] <= MOST_KINDS && bytes[4] <= 1 && bytes[5] <= 1 &&
           bytes[6] <= 1;
}

// Is `slice` in the arena that two words of a description name?
static bool is_in_arena(struct mimalloc3_search *s, const uint64_t *words, uint64_t slice)
{
    uint64_t number = (uint32_t)words[1], count = words[1] >> 32;
    uint64_t slices = is_memory(s, words[0]) && count > 0 ? arena_at(s, words[0]) : 0;
    if (slices == 0 || slices + (number << SLICE_BITS) != slice)
        return false;
    s->end = slice + (count << SLICE_BITS);
    return true;
}

// Is `slice` in the mapping that two words of a description name?
static bool is_in_mapping(struct mimalloc3_search *s, const uint64_t *words, uint64_t slice)
{
    uint64_t start = words[0], size = words[1];
    if (!is_memory(s, start) || size == 0 || size % PAGE != 0 || start > slice || size > UINT64_MAX - start ||
        start + size <= slice || !add_range(s, start, size))
        return false;
    s->end = start + size;
    s->own++;
    return true;
}

struct slice_visit {
    struct mimalloc3_search *search;
    uint64_t table, first; // address that it is for
};

// Takes a word of a table: the description of a page that begins with this slice, or of the page before.
static bool visit_slice(void *context, uint64_t address, uint64_t word)
{
    const struct slice_visit *v = context;
    struct mimalloc3_search *s = v->search;
    uint64_t words[PAGE_WORDS], slice = v->first + ((address - v->table) / sizeof word << SLICE_BITS);
    bool fits = word == s->word && slice < s->end;
    if (fits)
        return true;
    if (--s->reads_left > 0 && word % sizeof word == 0 && as_target_read(s->target, word, words, sizeof words))
        for (size_t i = PROVENANCE; i + 2 < PAGE_WORDS && !fits && s->ok; i++)
            fits = is_provenance(&words[i]) && (is_in_arena(s, &words[i], slice) || is_in_mapping(s, &words[i], slice));
    s->word = fits ? word : 0;
    s->pages += fits;
    s->mismatches += !fits;
    return goes_on(s);
}

static bool visit_table(void *context, uint64_t address, uint64_t word)
{
    const struct slice_visit *map = context;
    struct mimalloc3_search *s = map->search;
    struct slice_visit v = {s, word, (address - map->table) / sizeof word << (TABLE_BITS + SLICE_BITS)};
    if (!is_memory(s, word) || !add_range(s, word, TABLE)) {
        s->mismatches++;
    } else {
        as_words_visit(s->target, &s->reads_left, word, word + TABLE, visit_slice, &v);
    }
    return goes_on(s);
}

// Is there a map at `at`? Its first table; an empty range: there is none. Up to 3.4 it begins there, later behind a few words, of which
// the first is its number of pointers.
static struct as_range first_table(struct mimalloc3_search *s, uint64_t at)
{
    uint64_t words[HEAD_WORDS];
    if (!is_memory(s, at) || --s->reads_left <= 0 || !as_target_read(s->target, at, words, sizeof words))
        return (struct as_range){0, 0};
    for (size_t i = 0; i < HEAD_WORDS; i++) {
        uint64_t start = at + i * sizeof *words, count = (words[i] - start) / sizeof *words;
        bool power = count > 0 && (count & (count - 1)) == 0;
        if (words[i] > start && words[i] % PAGE == 0 && count >= LEAST_TABLES && count <= MOST_TABLES &&
            (i == 0 ? power : count == words[0]))
            return (struct as_range){start, words[i]};
    }
    return (struct as_range){0, 0};
}

// Does this variable point to the map?
static bool try_variable(void *context, uint64_t address, uint64_t word)
{
    struct mimalloc3_search *s = context;
    struct as_range map = first_table(s, word);
    struct slice_visit v = {s, map.start, 0};
    (void)address;
    if (map.start == 0)
        return s->reads_left > 0;
    as_words_visit(s->target, &s->reads_left, map.start + sizeof word, map.end, visit_table, &v);
    s->found = s->pages > s->mismatches && s->reads_left > 0 && add_range(s, word, map.end + PAGE - word);
    if (!s->found) {
        as_ranges_clear(&s->ranges);
        s->word = s->pages = s->own = s->mismatches = s->arena_count = 0;
    }
    return s->ok && !s->found;
}

static void search_variables(struct mimalloc3_search *s)
{
    struct as_target *t = s->target;
    for (size_t i = 0; i < t->mappings.count && s->ok && !s->found; i++) {
        struct as_range variables;
        int64_t reads_left = FREE_READS;
        if (as_variables_at(t, i, &variables))
            as_variable_words_visit(s->words, t, &reads_left, variables, try_variable, s);
    }
}

bool as_mimalloc3_find(const struct as_finder_input *in)
{
    struct mimalloc3_search s = {
        .target = in->target, .store = in->store, .err = in->err, .words = in->words, .ok = true};
    uint64_t bytes = 0;
    s.reads_left =
        FREE_READS + as_runtime_read_budget(in->target, UINT64_C(1) << SLICE_BITS); // a page has a slice at least
    search_variables(&s);
    if (s.ok && s.found) {
        // 3.0 may still describe a page whose memory has become another's since.
        uint32_t runtime = as_runtime_add(in->store, AS_RUNTIME_MIMALLOC, AS_ROW_other_malloc, in->err);
        s.ok =
            runtime != UINT32_MAX && as_ranges_settle(&s.ranges, in->target, in->store, runtime, true, &bytes, in->err);
        if (s.ok)
            as_runtime_found(in->store, runtime, bytes, "3",
                             "each of %" PRIu64 " pages in mimalloc's map says that it lies where the map has it: in "
                             "%zu arenas, and %" PRIu64 " in mappings of their own",
                             s.pages, s.arena_count, s.own);
    }
    as_ranges_free(&s.ranges);
    return s.ok;
}
