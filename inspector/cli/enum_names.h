// SPDX-License-Identifier: MIT
// The words that stand for the format's numbers in JSON and tables. NULL where there is none (an unknown architecture, say).
#pragma once

#include "libc/libc.h"
#include "model/view.h"

#include <stdint.h>

const char *as_target_kind_name(uint32_t kind); // as_target_kind
const char *as_arch_name(uint32_t arch);        // as_arch
const char *as_mode_name(uint32_t mode);        // as_mode
struct as_not_glibc {
    const char *says;   // a clause, which the detail follows
    const char *memory; // a sentence: in which rows the memory of that malloc is
};
const struct as_not_glibc *as_not_glibc_words(const struct as_view *v); // NULL: malloc is glibc's
// The row that has the memory of a malloc which is not glibc's; other_anon: it was not located.
int as_row_of_malloc(const struct as_view *v);
// What is in a row, for people: what is not glibc's malloc's may be that of another malloc.
const char *as_row_meaning(int row, const struct as_view *v);
const char *as_source_name(uint32_t source);     // as_layout_source; NULL for AS_LAYOUT_NONE
const char *as_warning_name(uint32_t code);      // as_warning
const char *as_runtime_name(uint32_t kind);      // as_runtime_kind: the runtime; NULL for a later one
const char *as_runtime_part_name(uint32_t kind); // ... and the part of its memory
const char *as_class_kind_name(uint32_t kind);   // as_class_kind
const char *as_chunk_name(uint32_t kind);        // as_chunk_class
