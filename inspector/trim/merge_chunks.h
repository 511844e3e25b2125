// SPDX-License-Identifier: MIT
// Merging a chunk of a fastbin with its free neighbours, as malloc_consolidate does. Internal to trim/.
#pragma once

#include "trim/chunk.h"

// How a chunk will lie among its neighbours.
struct as_trim_merge {
    uint64_t chunk, size;
    uint64_t before; // the free chunk before it; 0: that is in use
    uint64_t behind; // the free chunk behind it; 0: that is in use, or the top
    bool into_top;
};

// Finds out, and checks every word that as_trim_merge_do is going to rely on, all that malloc itself checks and more. Writes
// nothing. AS_TRIM_CORRUPT or AS_TRIM_DONE.
enum as_trim_progress as_trim_merge_prepare(struct as_trim_pass *p, uint64_t chunk, uint64_t size,
                                            struct as_trim_merge *out);

// Does it: nothing may have happened since as_trim_merge_prepare but that the chunk was taken out of its fastbin.
void as_trim_merge_do(struct as_trim_pass *p, const struct as_trim_merge *m);
