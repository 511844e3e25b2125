// SPDX-License-Identifier: MIT
#pragma once

#include <stdbool.h>
#include <stdint.h>

// What is asked of a trim.
struct as_trim_request {
    bool deep;            // thread arenas' tops, too
    uint64_t max_hold_ns; // of one arena's lock; 0: as long as it takes
    uint64_t only;        // the one arena's address; 0: all
};
