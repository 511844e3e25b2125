// SPDX-License-Identifier: MIT
#include "runtimes/variables.h"

#include "base/align.h"
#include "runtimes/regions.h"

enum { STEP = 512 }; // words that are read in one go

bool as_variables_at(const struct as_target *t, size_t index, struct as_range *variables)
{
    const struct as_mapping *m = &t->mappings.items[index];
    if (!as_mapping_of_file(m) || !(m->prot & AS_PROT_WRITE) || (m->prot & AS_PROT_SHARED))
        return false;
    const struct as_mapping *next = index + 1 < t->mappings.count ? m + 1 : NULL;
    bool nameless = next && next->start == m->end && as_is_runtime_memory(next) && *as_mapping_path(t, next) == 0;
    *variables = (struct as_range){m->start, nameless ? next->end : m->end};
    return true;
}

bool as_words_visit(struct as_target *t, int64_t *looks, uint64_t start, uint64_t end, as_word_fn *visit, void *context)
{
    uint64_t words[STEP];
    bool all = true;
    for (uint64_t at = start; at < end;) {
        uint64_t present = as_target_skip_absent(t, as_align_down(at, t->page_size), as_align_up(end, t->page_size));
        at = present > at ? present : at;
        size_t wanted = at < end && end - at < sizeof words ? (size_t)(end - at) : sizeof words;
        if (at >= end)
            return all;
        if (--*looks <= 0)
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
