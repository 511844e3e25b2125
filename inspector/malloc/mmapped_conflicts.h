// SPDX-License-Identifier: MIT
// More maps resemble mmapped chunks than mp_.n_mmaps says. Either memory of the program's own
// resembles one: a page that begins with zero and a round number with bit 1 set (Java's tables do). Or malloc could not
// unmap it: with hugetlb pages, glibc 2.35 to 2.42 lets realloc shrink a block to a part of a huge page, which munmap refuses
// to take when the block is freed; malloc counts it as gone, and nothing in it tells. mp_.mmapped_mem says which are too
// many: those that together are as long as the excess, if only one choice of them is.
#pragma once

#include "malloc/heaps.h"

// Drops the `count` maps, `bytes` long together, that h->mmapped holds too many: those that malloc could not unmap (below),
// or the program's own memory. False: which they are is unknown; h->munmap_failed says how many malloc could not unmap.
bool as_mmapped_drop_surplus(struct as_heaps *h, uint64_t count, uint64_t bytes);
// Can this map be a block that the program freed and that stays mapped, because munmap refuses a part of a huge page?
bool as_mmapped_munmap_can_fail(const struct as_heaps *h, const struct as_mmapped *m);
