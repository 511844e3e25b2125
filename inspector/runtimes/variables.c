// SPDX-License-Identifier: MIT
#include "runtimes/variables.h"

#include "base/align.h"

#include <string.h>

enum { STEP = 512 }; // words that are read in one go
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

bool as_words_visit(struct as_target *t, int64_t *reads_left, uint64_t start, uint64_t end, as_word_fn *visit,
                    void *context)
{
    uint64_t words[STEP];
    bool all = true;
    for (uint64_t at = start; at < end;) {
        uint64_t present = as_target_skip_absent(t, as_align_down(at, t->page_size), as_align_up(end, t->page_size));
        at = present > at ? present : at;
        size_t wanted = at < end && end - at < sizeof words ? (size_t)(end - at) : sizeof words;
        if (at >= end)
            return all;
        if (--*reads_left <= 0)
            return false;
        size_t length = as_target_read_resident(t, at, words, wanted);
        for (size_t i = 0; i < length / sizeof *words; i++)
            if (words[i] != 0 && !visit(context, at + i * sizeof *words, words[i]))
                return all;
        all &= length == wanted;
        at = length == wanted ? at + length : as_align_down(at + length, t->page_size) + t->page_size;
    }
    return all;
}
