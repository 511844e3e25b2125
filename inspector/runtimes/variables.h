// SPDX-License-Identifier: MIT
// The variables of a target's programs and libraries, and words in its memory. Internal to runtimes/.
#pragma once

#include "target/target.h"

// The variables of a program or library of which mapping `index` is one: from there to the end of the nameless memory behind it (.bss and
// perhaps more), 256 MiB at most. False: it is none that can be written, it shares its pages, or it is larger.
bool as_variables_at(const struct as_target *t, size_t index, struct as_range *variables);

// What is done with a word that is not 0; false ends it.
typedef bool as_word_fn(void *context, uint64_t address, uint64_t word);

// What is done with words that follow each other from `address` on; false ends it.
typedef bool as_words_fn(void *context, uint64_t address, const uint64_t *words, size_t count);

// Calls `take` for the words of a range, as as_words_visit; with `absent`, also for those on pages that are absent.
bool as_words_read(struct as_target *t, int64_t *reads_left, struct as_range range, bool absent, as_words_fn *take,
                   void *context);

// Calls `visit` for the words of [start, end), which are multiples of 8, but for those that are 0. Each read of up to 4 KiB takes
// one of *reads_left. False: none was left, or something could not be read and was passed over.
bool as_words_visit(struct as_target *t, int64_t *reads_left, uint64_t start, uint64_t end, as_word_fn *visit,
                    void *context);
