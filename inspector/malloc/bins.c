// SPDX-License-Identifier: MIT
#include "malloc/heaps.h"
#include "malloc/walk.h"

enum { BINS = 127 }; // NBINS - 1: bins[] has two words for each, bin 1 (unsorted) first

void as_bins_check(struct as_heaps *h, uint32_t arena_index)
{
    const struct as_arena *arena = &h->arenas.items[arena_index];
    uint64_t at = arena->address + (uint64_t)arena->libc->layout.state.bins;
    uint64_t words[2 * BINS];
    // Without a top malloc_init_state has made no bins yet; and bins that are read while threads run need not agree.
    if (arena->top == 0 || (h->target->kind == AS_TARGET_PROCESS && !h->target->stop.active) ||
        !as_target_read(h->target, at, words, sizeof words))
        return;
    struct as_bin_sums sums = arena->bin_sums;
    for (int i = 0; i < BINS; i++) // a bin's head is the chunk whose fd and bk are its two words
        as_bin_sums_add(&sums, at + (uint64_t)i * 2 * sizeof *words - AS_HEADER, words[2 * i], words[2 * i + 1]);
    if (sums.nodes != sums.forward || sums.nodes != sums.back)
        as_fault_note(h, arena_index, UINT32_MAX, arena->address,
                      "the bins of an arena do not contain exactly the free chunks of the walk");
}
