// SPDX-License-Identifier: MIT
// What the searches of a snapshot ask of the words of all variables (variables.h): these are read once for all searches. Internal to
// runtimes/, but for its beginning and its end.
#pragma once

#include "base/vec.h"
#include "libc/interpreters.h"
#include "runtimes/variables.h"

// A word as it was read, and its address.
struct as_variable_word {
    uint64_t place, word;
};

// All 0: nothing was read yet.
struct as_variable_words {
    bool asked;
    bool whole;                            // all words are in it; false: searches read on their own
    AS_VEC(struct as_variable_word) found; // by place: addresses of memory, and what CPython begins its own with
    AS_VEC(uint64_t) numbers;              // bits: a number among the words has two of them, by its value
};

// Reads the words of a target whose residency is known, unless that was done. Of interpreters it reads absent pages, too: a page that
// a program has not changed may be absent, and hold the mark of CPython.
void as_variable_words_read(struct as_variable_words *w, struct as_target *t,
                            const struct as_interpreter_objects *interpreters);
void as_variable_words_free(struct as_variable_words *w);

// Calls `visit` for words of a range of variables, as as_words_visit: at least for those that are addresses of memory that a
// runtime may have, and multiples of 8. `w` may be NULL.
void as_variable_words_visit(const struct as_variable_words *w, struct as_target *t, int64_t *reads_left,
                             struct as_range range, as_word_fn *visit, void *context);

// The index in w->found of the first word at `place` or behind it.
size_t as_variable_words_from(const struct as_variable_words *w, uint64_t place);

// Is it possible that this number, of more than 48 bits, is the value of a variable? False: it is none, for sure. `w` may be NULL.
bool as_variable_words_may_have(const struct as_variable_words *w, uint64_t number);
