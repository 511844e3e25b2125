// SPDX-License-Identifier: MIT
// Variables that may be pointers to what is searched for. Internal to runtimes/.
#pragma once

#include "runtimes/variable_words.h"
#include "target/target.h"

enum { AS_POINTERS = 256 }; // that are followed in one go

struct as_pointer_search {
    struct as_target *target;
    void *context;
    // May the word at `place` be such a pointer? It is not 0.
    bool (*is_candidate)(void *context, uint64_t place, uint64_t word);
    // Follows at most AS_POINTERS of them, which are at these places. False: the search ends.
    bool (*follow)(void *context, const uint64_t *pointers, const uint64_t *places, size_t count);
    const int64_t *reads_left; // the search ends, too, when none are left
    // Words of variables, which were read for all searches. NULL: this search reads its words.
    const struct as_variable_words *words;
};

// Goes through the words of [start, end), a multiple of words. False: follow() said so.
bool as_pointers_search(const struct as_pointer_search *p, uint64_t start, uint64_t end);
