// SPDX-License-Identifier: MIT
// Safe-linking (glibc 2.32 and later): the links of tcaches and fastbins are stored mangled.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The pointer that is stored as `stored` in the word at `position` (REVEAL_PTR). As it is where libc does not mangle.
static inline uint64_t as_reveal_ptr(bool safe_linking, uint64_t position, uint64_t stored)
{
    return safe_linking ? (position >> 12) ^ stored : stored;
}
