// SPDX-License-Identifier: MIT
#include "runtimes/variable_words.h"

#include "runtimes/cpython_interpreters.h"
#include "runtimes/memory_places.h"

enum {
    MOST_READS = 16384,   // of 4 KiB, in all
    MOST_FOUND = 1 << 17, // words that are kept
    NUMBER_BITS = 19,     // of an index of a bit
    ADDRESS_BITS = 48,    // numbers have more
};

struct variable_reading {
    struct as_variable_words *words;
    struct as_target *target;
    struct as_range memory; // from the first address that a runtime may have to the end of the last
    struct as_memory_places places;
    int64_t reads_left;
};

// The two bits of a number, by the highest and by other bits of its product with a large odd number.
static void bits_of(uint64_t number, uint64_t bits[2])
{
    uint64_t mixed = number * UINT64_C(0x9E3779B97F4A7C15);
    bits[0] = mixed >> (64 - NUMBER_BITS);
    bits[1] = mixed >> (64 - 2 * NUMBER_BITS) & ((UINT64_C(1) << NUMBER_BITS) - 1);
}

static void add_number(struct as_variable_words *w, uint64_t number)
{
    uint64_t bits[2];
    bits_of(number, bits);
    for (int i = 0; i < 2; i++)
        w->numbers.items[bits[i] / 64] |= UINT64_C(1) << bits[i] % 64;
}

static bool add_found(struct as_variable_words *w, uint64_t place, uint64_t word)
{
    struct as_variable_word *added = w->found.count < MOST_FOUND ? as_vec_add(&w->found, NULL) : NULL;
    w->whole = added != NULL;
    if (added)
        *added = (struct as_variable_word){place, word};
    return w->whole;
}

// Is the word the address of memory that a runtime may have, and a multiple of 8? Most words are not between the first and the last.
static inline bool is_address(struct variable_reading *r, uint64_t word)
{
    return word >= r->memory.start && word < r->memory.end && word % sizeof word == 0 &&
           as_is_in_runtime_memory(&r->places, r->target, word);
}

static bool take_words(void *context, uint64_t address, const uint64_t *words, size_t count)
{
    struct variable_reading *r = context;
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        if (words[i] >> ADDRESS_BITS != 0)
            add_number(r->words, words[i]);
        if (words[i] == AS_PY_RUNTIME_COOKIE || is_address(r, words[i]))
            ok = add_found(r->words, address + i * sizeof *words, words[i]);
    }
    return ok;
}

static struct as_range all_memory(const struct as_target *t)
{
    struct as_range all = {UINT64_MAX, 0};
    AS_FOR_EACH(const struct as_mapping, m, &t->mappings)
        if (as_is_runtime_memory(m))
            all = (struct as_range){m->start < all.start ? m->start : all.start, m->end};
    return all;
}

static bool read_all(struct variable_reading *r, const struct as_interpreter_objects *interpreters)
{
    const struct as_target *t = r->target;
    uint64_t end = 0;
    for (size_t i = 0; i < t->mappings.count && r->words->whole; i++) {
        struct as_range variables;
        if (!as_variables_at(t, i, &variables))
            continue;
        bool is_python = as_interpreters_have(interpreters, AS_INTERPRETER_CPYTHON, &t->mappings.items[i]);
        r->words->whole = variables.start >= end; // else the order is lost
        if (r->words->whole)
            as_words_read(r->target, &r->reads_left, variables, is_python, take_words, r);
        r->words->whole &= r->reads_left > 0;
        end = variables.end;
    }
    return r->words->whole;
}

void as_variable_words_read(struct as_variable_words *w, struct as_target *t,
                            const struct as_interpreter_objects *interpreters)
{
    struct variable_reading r = {.words = w, .target = t, .memory = all_memory(t), .reads_left = MOST_READS};
    if (w->asked)
        return;
    w->asked = true;
    w->whole = as_vec_reserve(&w->numbers, (1 << NUMBER_BITS) / 64, NULL);
    if (w->whole && !read_all(&r, interpreters))
        as_variable_words_free(w);
}

void as_variable_words_free(struct as_variable_words *w)
{
    AS_FREE_VECS(w, found, numbers);
    w->whole = false;
}

size_t as_variable_words_from(const struct as_variable_words *w, uint64_t place)
{
    return AS_PARTITION_POINT(0, w->found.count, i, w->found.items[i].place < place);
}

void as_variable_words_visit(const struct as_variable_words *w, struct as_target *t, int64_t *reads_left,
                             struct as_range range, as_word_fn *visit, void *context)
{
    if (!w || !w->whole) {
        as_words_visit(t, reads_left, range.start, range.end, visit, context);
        return;
    }
    for (size_t i = as_variable_words_from(w, range.start); i < w->found.count && w->found.items[i].place < range.end;
         i++)
        if (!visit(context, w->found.items[i].place, w->found.items[i].word))
            return;
}

bool as_variable_words_may_have(const struct as_variable_words *w, uint64_t number)
{
    uint64_t bits[2];
    if (!w || !w->whole || number >> ADDRESS_BITS == 0)
        return true;
    bits_of(number, bits);
    return (w->numbers.items[bits[0] / 64] >> bits[0] % 64 & 1) && (w->numbers.items[bits[1] / 64] >> bits[1] % 64 & 1);
}
