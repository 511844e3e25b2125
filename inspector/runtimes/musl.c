// SPDX-License-Identifier: MIT
// musl's malloc (mallocng, since 1.2.1) by structure. All that it hands out lies in groups of slots. A group begins with the address of its
// description, which has the group's address, and how many pages of 4 KiB were mapped for the group; 0: it lies in a slot of another
// group, or in the rest of a library's last page. The descriptions stand in pages of their own, in a list, each of which begins with a
// random number of 64 bits. musl's variables have this number, and a few words behind it the first and the last page of the list.
// (src/malloc/mallocng/meta.h, malloc.c and donate.c, read in 1.2.3 and 1.2.5)
#include "runtimes/finder.h"

#include "runtimes/ranges.h"
#include "runtimes/regions.h"
#include "runtimes/variables.h"

#include <inttypes.h>

enum {
    PAGE = 4096,    // of descriptions, and the unit of a group's size
    SLOTS = 101,    // in a page of descriptions
    LENGTH_AT = 12, // bit of a description's last word: the group's pages
    NUMBER_BEFORE =
        7, // words from the random number to the first page's address; one more where the size of a page is a variable
    FREE_READS = 1 << 16, // at a page, whatever the target's size; and at 4 KiB of variables
    MISMATCHES = 8,       // a thread may stand between two changes
};

struct description {
    uint64_t previous, next, group, masks, bits;
};
struct description_page {
    uint64_t number, next;
    uint32_t slots, unused;
    struct description slot[SLOTS];
};

struct musl_search {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    uint32_t runtime;
    int64_t reads_left; // that are left
    bool ok, found;     // ok false: our memory ran out
    uint64_t groups, mismatches;
    struct as_ranges ranges; // of groups, and of descriptions
};

static bool add_range(struct musl_search *s, uint64_t start, uint64_t length)
{
    s->ok = s->ok && as_ranges_add(&s->ranges, start, length, s->err);
    return s->ok;
}

static bool read_page(struct musl_search *s, uint64_t at, struct description_page *page)
{
    return at % PAGE == 0 && --s->reads_left > 0 && as_is_runtime_memory(as_target_mapping_at(s->target, at)) &&
           as_target_read(s->target, at, page, sizeof *page) && page->number != 0 && page->slots == SLOTS;
}

// Adds the groups that a page describes and that have pages of their own: others lie in a slot of these.
static void add_groups(struct musl_search *s, uint64_t at, const struct description_page *page)
{
    uint64_t groups[SLOTS], back[SLOTS];
    bool read[SLOTS];
    size_t slots[SLOTS], count = 0;
    for (size_t i = 0; i < SLOTS; i++)
        if (page->slot[i].group != 0 && page->slot[i].bits >> LENGTH_AT > 0) {
            slots[count] = i;
            groups[count++] = page->slot[i].group;
        }
    as_target_gather(s->target, groups, count, sizeof *back, back, sizeof *back, read);
    for (size_t i = 0; i < count && s->ok; i++) {
        const struct description *d = &page->slot[slots[i]];
        uint64_t owner = at + (uint64_t)((const char *)d - (const char *)page);
        bool fits = read[i] && back[i] == owner && groups[i] % PAGE == 0 &&
                    add_range(s, groups[i], (d->bits >> LENGTH_AT) * PAGE);
        s->mismatches += !fits;
        s->groups += fits;
    }
}

// Adds the list of pages from the first to the last. False: it is none.
static bool add_pages(struct musl_search *s, uint64_t first, uint64_t last, uint64_t number)
{
    struct description_page page;
    for (uint64_t at = first; s->ok && s->mismatches <= MISMATCHES; at = page.next) {
        if (!read_page(s, at, &page) || page.number != number || !add_range(s, at, PAGE))
            return false;
        add_groups(s, at, &page);
        if (at == last)
            return s->ok && s->groups > 0 && page.next == 0 && s->mismatches <= MISMATCHES;
    }
    return false;
}

// Is this variable the address of the first page?
static bool try_variable(void *context, uint64_t address, uint64_t word)
{
    struct musl_search *s = context;
    struct description_page page;
    uint64_t words[NUMBER_BEFORE + 3]; // from the number to the last page's address
    const size_t first = NUMBER_BEFORE + 1;
    if (!read_page(s, word, &page) || !as_target_read(s->target, address - first * sizeof word, words, sizeof words))
        return s->reads_left > 0;
    if (words[1] != page.number && (words[0] != page.number || words[1] != s->target->page_size))
        return true;
    s->found = add_pages(s, word, words[first + 1], page.number);
    if (!s->found) {
        as_ranges_clear(&s->ranges);
        s->groups = s->mismatches = 0;
    }
    return s->ok && !s->found;
}

static void search_mappings(struct musl_search *s)
{
    struct as_target *t = s->target;
    for (size_t i = 0; i < t->mappings.count && s->ok && !s->found; i++) {
        struct as_range variables;
        int64_t reads_left = FREE_READS;
        if (as_variables_at(t, i, &variables))
            as_words_visit(t, &reads_left, variables.start, variables.end, try_variable, s);
    }
}

bool as_musl_find(const struct as_finder_input *in)
{
    struct musl_search s = {
        .target = in->target, .store = in->store, .err = in->err, .reads_left = FREE_READS, .ok = true};
    uint64_t bytes = 0;
    s.reads_left += as_runtime_read_budget(in->target, PAGE); // a page of descriptions is a page at least
    search_mappings(&s);
    if (s.ok && s.found) {
        s.runtime = as_runtime_add(in->store, AS_RUNTIME_MUSL, AS_ROW_other_malloc, in->err);
        s.ok = s.runtime != UINT32_MAX &&
               as_ranges_settle(&s.ranges, in->target, in->store, s.runtime, false, &bytes, in->err);
        if (s.ok)
            as_runtime_found(
                in->store, s.runtime, bytes, "1.2",
                "each of the %" PRIu64
                " groups that musl's malloc has mapped has the address of its description, and the description the "
                "group's; the pages of descriptions begin with a random number that musl's variables have",
                s.groups);
    }
    as_ranges_free(&s.ranges);
    return s.ok;
}
