// SPDX-License-Identifier: MIT
#include "runtimes/variables.h"

#include "base/align.h"

#include <string.h>

enum {
    READ = 4096, // bytes that count as one read
    STEP = 2048, // words that are read in one go
    PAGES = 64,  // whose residency is asked for in one go
};
static const uint64_t LARGEST_VARIABLES = UINT64_C(1) << 28;

// Does this mapping, right behind one of `of`'s variables, hold more of them? The kernel has .bss in as many parts as a program has
// protected, advised or given a protection key; and a program may have protected the last pages of its data.
static bool goes_on(const struct as_target *t, const struct as_mapping *of, const struct as_mapping *m)
{
    const char *path = as_mapping_path(t, m);
    if (m->prot & AS_PROT_SHARED || !(m->prot & AS_PROT_READ))
        return false;
    if (as_mapping_of_file(m))
        return !(m->prot & (AS_PROT_WRITE | AS_PROT_EXEC)) && strcmp(path, as_mapping_path(t, of)) == 0;
    return m->kind == AS_MAP_ANON && *path == 0;
}

bool as_variables_at(const struct as_target *t, size_t index, struct as_range *variables)
{
    const struct as_mapping *m = &t->mappings.items[index], *end = t->mappings.items + t->mappings.count;
    if (!as_mapping_of_file(m) || !(m->prot & AS_PROT_WRITE) || (m->prot & AS_PROT_SHARED) ||
        m->end - m->start > LARGEST_VARIABLES)
        return false;
    *variables = (struct as_range){m->start, m->end};
    for (const struct as_mapping *next = m + 1; next < end && next->start == variables->end && goes_on(t, m, next) &&
                                                next->end - m->start <= LARGEST_VARIABLES;
         next++)
        variables->end = next->end;
    return true;
}

// One go of as_words_read.
struct words_reading {
    struct as_target *target;
    int64_t *reads_left;
    as_words_fn *take;
    void *context;
    bool all;   // nothing was passed over
    bool ended; // take() said so, or no read is left
};

// Reads [start, end), of which no page is known to be absent.
static void read_stretch(struct words_reading *r, uint64_t start, uint64_t end)
{
    uint64_t words[STEP];
    for (uint64_t at = start; at < end && !r->ended;) {
        size_t wanted = end - at < sizeof words ? (size_t)(end - at) : sizeof words;
        if ((*r->reads_left -= (int64_t)((wanted + READ - 1) / READ)) <= 0) {
            r->all = false;
            r->ended = true;
            return;
        }
        size_t length = as_target_read_resident(r->target, at, words, wanted);
        r->ended = !r->take(r->context, at, words, length / sizeof *words);
        r->all &= r->ended || length == wanted;
        at = length == wanted ? at + length : as_align_down(at + length, r->target->page_size) + r->target->page_size;
    }
}

// Reads what is not absent of [start, end), which is of PAGES pages at most. False: all of it is absent.
static bool read_pages(struct words_reading *r, uint64_t start, uint64_t end)
{
    uint8_t pages[PAGES];
    const uint64_t size = r->target->page_size, first = as_align_down(start, size);
    size_t count = (size_t)((as_align_up(end, size) - first) / size);
    if (!as_target_residency(r->target, first, first + count * size, pages, NULL)) {
        read_stretch(r, start, end);
        return true;
    }
    bool any = false;
    for (size_t i = 0, run; i < count && !r->ended; i += run) {
        for (run = 1; i + run < count && (pages[i + run] != 0) == (pages[i] != 0);)
            run++;
        uint64_t from = first + i * size, to = from + run * size;
        if (pages[i] != 0)
            read_stretch(r, from > start ? from : start, to < end ? to : end);
        any |= pages[i] != 0;
    }
    return any;
}

static void read_present(struct words_reading *r, uint64_t start, uint64_t end)
{
    struct as_target *t = r->target;
    uint64_t count = 1; // pages: a search often ends at the first word
    for (uint64_t at = start; at < end && !r->ended; count = count < PAGES ? count * 4 : PAGES) {
        uint64_t stop = as_align_down(at, t->page_size) + count * t->page_size;
        stop = stop < end && stop > at ? stop : end;
        bool any = read_pages(r, at, stop);
        at = stop;
        if (!any && at < end) {
            uint64_t present =
                as_target_skip_absent(t, as_align_down(at, t->page_size), as_align_up(end, t->page_size));
            at = present > at ? present : at;
        }
    }
}

bool as_words_read(struct as_target *t, int64_t *reads_left, struct as_range range, bool absent, as_words_fn *take,
                   void *context)
{
    struct words_reading r = {.target = t, .take = take, .context = context, .all = true};
    r.reads_left = reads_left;
    if (absent)
        read_stretch(&r, range.start, range.end);
    else
        read_present(&r, range.start, range.end);
    return r.all;
}

struct word_visit {
    as_word_fn *visit;
    void *context;
};

static bool visit_words(void *context, uint64_t address, const uint64_t *words, size_t count)
{
    const struct word_visit *v = context;
    bool goes_on = true;
    for (size_t i = 0; i < count && goes_on; i++)
        goes_on = words[i] == 0 || v->visit(v->context, address + i * sizeof *words, words[i]);
    return goes_on;
}

bool as_words_visit(struct as_target *t, int64_t *reads_left, uint64_t start, uint64_t end, as_word_fn *visit,
                    void *context)
{
    struct word_visit v = {visit, context};
    return as_words_read(t, reads_left, (struct as_range){start, end}, false, visit_words, &v);
}
