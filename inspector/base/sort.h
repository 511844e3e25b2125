// SPDX-License-Identifier: MIT
// Sorting without malloc (libc's qsort may call it).
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

// Sorts 64-bit values ascending, by radix. False (AS_NO_MEMORY) leaves some order or other, all values still there.
bool as_sort_u64(uint64_t *values, size_t count, struct as_error *err);

// The place of the first value >= `key` in ascending `values`.
size_t as_lower_bound(const uint64_t *values, size_t count, uint64_t key);
