// SPDX-License-Identifier: MIT
// Putting a chunk that nobody uses any more among the free ones, as free() and malloc_consolidate do. Internal to trim/.
#pragma once

#include "trim/chunk.h"

// How a chunk will lie among its neighbours.
struct as_merge {
    uint64_t chunk, size;
    uint64_t before; // the free chunk before it; 0: that is in use
    uint64_t behind; // the free chunk behind it; 0: that is in use, or the top
    bool into_top;
};

// Finds out, and checks every word that as_merge_do is going to rely on, all that malloc itself checks and more. Writes nothing.
// AS_NONSENSE or AS_ALL_DONE.
enum as_progress as_merge_prepare(struct as_pass *p, uint64_t chunk, uint64_t size, struct as_merge *out);

// Does it: nothing may have happened since as_merge_prepare but that the chunk was taken out of its fastbin.
void as_merge_do(struct as_pass *p, const struct as_merge *m);
