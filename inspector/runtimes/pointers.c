// SPDX-License-Identifier: MIT
#include "runtimes/pointers.h"

enum { STEP = 4096 }; // words that are read in one go

// Those that are to be followed.
struct batch {
    const struct as_pointer_search *search;
    uint64_t pointers[AS_POINTERS], places[AS_POINTERS];
    size_t count;
};

static bool follow(struct batch *b)
{
    size_t count = b->count;
    b->count = 0;
    return count == 0 || b->search->follow(b->search->context, b->pointers, b->places, count);
}

// False: follow() said so.
static bool take_word(struct batch *b, uint64_t place, uint64_t word)
{
    if (word == 0 || !b->search->is_candidate(b->search->context, place, word))
        return true;
    b->places[b->count] = place;
    b->pointers[b->count++] = word;
    return b->count < AS_POINTERS || follow(b);
}

static bool take_words_that_are_known(struct batch *b, uint64_t start, uint64_t end)
{
    const struct as_variable_words *w = b->search->words;
    bool ok = true;
    for (size_t i = as_variable_words_from(w, start); ok && i < w->found.count; i++) {
        const struct as_variable_word *found = &w->found.items[i];
        if (found->place >= end || *b->search->reads_left <= 0)
            break;
        ok = take_word(b, found->place, found->word);
    }
    return ok && follow(b);
}

bool as_pointers_search(const struct as_pointer_search *p, uint64_t start, uint64_t end)
{
    uint64_t words[STEP];
    struct batch b = {.search = p};
    if (p->words && p->words->whole)
        return take_words_that_are_known(&b, start, end);
    for (uint64_t at = start; *p->reads_left > 0 && at < end; at += sizeof words) {
        size_t length = end - at < sizeof words ? (size_t)(end - at) : sizeof words;
        length = as_target_read_resident(p->target, at, words, length);
        for (size_t i = 0; i < length / sizeof *words; i++)
            if (!take_word(&b, at + i * sizeof *words, words[i]))
                return false;
    }
    return follow(&b);
}
