// SPDX-License-Identifier: MIT
// The search for pymalloc's arenas, and one arena of those that it comes by. Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/store.h"
#include "runtimes/cpython_layout.h"
#include "runtimes/memory_places.h"
#include "runtimes/variable_words.h"
#include "target/target.h"

enum {
    AS_PY_TABLES = 1024,   // arrays of arena_objects: one for each interpreter that has its own
    AS_PY_INDEX_BITS = 20, // of an arena's place among all
    AS_PY_TOGETHER = 64,   // arenas whose headers are read at once
};

// What differs between releases.
struct as_py_layout {
    const char *releases;
    uint32_t arena, pool; // bytes
};

// An element of an array of arenas.
struct as_py_element {
    struct as_py_arena arena;
    uint32_t index;
};

// What is being searched for, with what was found so far. A target may be made so that inspecting never ends: `reads_left` are left.
struct as_py_search {
    struct as_target *target;
    const struct as_interpreter_objects *interpreters;
    struct as_store *store;
    struct as_error *err;
    const struct as_py_layout *layout;
    uint32_t runtime;              // index of our record
    size_t first, sorted;          // of our regions; how many of these are sorted
    size_t first_page;             // of our pages
    uint64_t tables[AS_PY_TABLES]; // the arrays of arena_objects that were accepted
    size_t table_count;
    uint64_t pools;     // whose headers fit
    uint64_t unsettled; // arenas of which the counts differ by a pool: pymalloc was at work
    int64_t reads_left;
    struct as_memory_places places;
    const struct as_variable_words *words;
    bool glibc;       // it answers malloc()
    bool pages;       // what lies on each page is wanted
    bool has_length;  // behind a variable with an array's address stands a number of elements
    uint64_t offsets; // address of _PyRuntime, where it says what it has; 0: not seen
    struct as_size_class_record classes[AS_PY_CLASSES];
    AS_VEC(uint64_t) addresses; // of the headers of some arenas' pools
    AS_VEC(struct as_py_pool) headers;
    AS_VEC(bool) read;
};

// Could this be an element of the array at `table`?
bool as_py_is_arena(const struct as_py_search *s, uint64_t table, const struct as_py_arena *o);

// Adds the arenas of elements to the store and their blocks to `classes`, if all of their pools are as the elements say. At most
// AS_PY_TOGETHER. False when they are not; *ok turns false when memory ran out.
bool as_py_add_arenas(struct as_py_search *s, const struct as_py_element *elements, size_t count,
                      struct as_size_class_record *classes, bool *ok);
