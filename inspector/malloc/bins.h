// SPDX-License-Identifier: MIT
// Whether the lists of an arena's bins hold what the walk found free.
#pragma once

#include "malloc/heaps.h"

// After the walk of all of an arena's heaps: whether its bins hold what the walk found free, no more and no less. A fault where
// they do not.
void as_bins_check(struct as_heaps *h, uint32_t arena);
