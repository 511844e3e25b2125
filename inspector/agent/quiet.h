// SPDX-License-Identifier: MIT
// Working in a thread of the application's without its noticing: no signal of its own comes in between, and none that
// our writes raise is left behind.
#pragma once

#include <stdint.h>

struct as_quiet {
    uint64_t mask, pending; // as they were
};

// Blocks this thread's signals, but for those that libc needs and those that are our own fault. Async-signal-safe, both.
void as_quiet_begin(struct as_quiet *quiet);
void as_quiet_end(const struct as_quiet *quiet);
