// SPDX-License-Identifier: MIT
// What a verdict needs beside the rows: the largest of what is in use, and where the pages of the forecast lie.
#pragma once

#include "model/view.h"

// Chunks in use of one size.
struct as_largest_size {
    uint64_t chunk_size, count, bytes;
};
enum { AS_LARGEST_SIZES = 10 };
// The sizes whose chunks in use have the most bytes (chunk sizes, resident or not; mmapped chunks are among them), most first.
// Returns how many there are. Sizes with a number that is not known are left out.
uint32_t as_largest_sizes(const struct as_view *v, struct as_largest_size out[AS_LARGEST_SIZES]);

// The size of the largest mapping that is one mmapped chunk, in bytes; 0: there is none.
uint64_t as_largest_mmapped(const struct as_view *v);

// Where the pages lie that malloc_trim(0) returns, in bytes.
struct as_releasable {
    uint64_t end;    // in the top of a main arena, the end of its heap
    uint64_t below;  // between what is in use
    uint64_t arenas; // number of arenas that have pages of the second kind
};
// All are AS_UNKNOWN where the forecast is.
struct as_releasable as_releasable_pages(const struct as_view *v);
