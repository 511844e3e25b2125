// SPDX-License-Identifier: MIT
// Whether a list that is not ours comes back to where it has been, without memory for all of it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// True once `address`, the one that comes after `steps` steps along a list, has been passed before: compared with the place
// remembered at the last power of two (Brent), which a cycle comes back to. *remembered: 0 at the beginning.
static inline bool as_is_cycle(uint64_t *remembered, uint64_t address, size_t steps)
{
    if (address == *remembered)
        return true;
    if ((steps & (steps - 1)) == 0)
        *remembered = address;
    return false;
}
