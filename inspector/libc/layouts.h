// SPDX-License-Identifier: MIT
// The table of glibc's layouts, and how evidence picks from it. A set of rows is a bit mask; evidence of one kind yields
// the rows that it admits, and several kinds are intersected. The version string is only ever the last to be heard.
#pragma once

#include "libc/libc.h"

enum { AS_LAYOUT_ROWS = 11 };
#define AS_LAYOUT_ALL_ROWS ((1u << AS_LAYOUT_ROWS) - 1)

const struct as_layout *as_layout_row(unsigned index);

// Rows whose release range holds a version such as "2.36"; every row for "" (unknown); the newest for one younger than
// the table.
uint32_t as_layout_rows_of_version(const char *version);

// Rows by one structural fact.
uint32_t as_layout_rows_with_next(uint64_t offset);      // offsetof (struct malloc_state, next)
uint32_t as_layout_rows_with_state_size(uint64_t size);  // sizeof (struct malloc_state)
uint32_t as_layout_rows_with_heap_info(uint64_t size);   // sizeof (heap_info)
uint32_t as_layout_rows_with_linking(bool safe_linking); // whether list links are mangled

// Rows whose struct malloc_state fits bytes that lie at `address` in a data image, as the linker left them: all zeros
// but .next (itself, or still to be relocated) and, from 2.23, attached_threads = 1.
uint32_t as_layout_rows_of_state_image(const uint8_t *bytes, size_t length, uint64_t address);

// Rows whose struct malloc_par fits bytes of a data image; *has_tcache: whether it has the tcache fields
// (libc_malloc_debug.so's has not). 0 when none fits.
uint32_t as_layout_rows_of_par_image(const uint8_t *bytes, size_t length, bool *has_tcache);

// The layout that the evidence leaves. `state` and `par` are rows for these structs; `hints` are further evidence for
// all of the layout, the strongest first, each heeded unless it contradicts what stands already.
void as_layout_compose(struct as_layout *out, uint32_t state, uint32_t par, bool has_tcache, const uint32_t *hints,
                       size_t hint_count);

// Removes the tcache from a layout.
void as_layout_without_tcache(struct as_layout *layout);
