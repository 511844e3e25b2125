// SPDX-License-Identifier: MIT
// Which addresses the heaps occupy, so that no byte is claimed twice: a hostile target may have two arenas, or mp_ and an
// arena, point at the same memory.
#pragma once

#include "base/vec.h"

struct as_span {
    uint64_t start, end;
};
typedef AS_VEC(struct as_span) as_span_vec; // by address, never overlapping

// The first span that ends behind `address`: the one that holds it, or the next one. NULL when there is none.
const struct as_span *as_span_from(const as_span_vec *spans, uint64_t address);

// True if [start, end) is not empty and touches no span.
bool as_span_is_clear(const as_span_vec *spans, uint64_t start, uint64_t end);

// Adds a span that is clear. AS_NO_MEMORY.
bool as_span_add(as_span_vec *spans, uint64_t start, uint64_t end, struct as_error *err);

// Makes the span that begins at `start` end earlier.
void as_span_cut(as_span_vec *spans, uint64_t start, uint64_t end);
