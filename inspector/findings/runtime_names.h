// SPDX-License-Identifier: MIT
// What to call a runtime, or a malloc that is not glibc's; and what it means for the rows.
#pragma once

#include "model/view.h"

#include <stdint.h>

struct as_not_glibc {
    const char *says;   // a clause, which the detail follows
    const char *memory; // a sentence: in which rows the memory of that malloc is
};
const struct as_not_glibc *as_not_glibc_words(const struct as_view *v); // NULL: malloc is glibc's
// The row that has the memory of a malloc which is not glibc's; other_anon: it was not located.
int as_row_of_malloc(const struct as_view *v);
// What is in a row, for people: what is not glibc's malloc's may be that of another malloc.
const char *as_row_meaning(int row, const struct as_view *v);
const char *as_runtime_name(uint32_t kind);      // as_runtime_kind: the runtime; NULL for a later one
const char *as_runtime_part_name(uint32_t kind); // ... and the part of its memory
// In a sentence, by the name in JSON: "Java" for "jvm". NULL: no runtime of that name has one.
const char *as_runtime_title(const char *name);
