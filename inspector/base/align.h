// SPDX-License-Identifier: MIT
// Rounding to powers of two.
#pragma once

#include <stdint.h>

// `to` must be a power of two. Near UINT64_MAX as_align_up wraps round.
static inline uint64_t as_align_down(uint64_t value, uint64_t to)
{
    return value & ~(to - 1);
}

static inline uint64_t as_align_up(uint64_t value, uint64_t to)
{
    return as_align_down(value + to - 1, to);
}
