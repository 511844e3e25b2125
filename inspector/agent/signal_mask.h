// SPDX-License-Identifier: MIT
// Working in a thread of the application's without its noticing: no signal of its own comes in between, and none that
// our writes raise is left behind.
#pragma once

#include <stdint.h>

struct as_signal_mask {
    uint64_t before, pending; // as they were
};

// Blocks this thread's signals, but for those that libc needs and those that are our own fault. Async-signal-safe, both.
void as_signal_mask_block(struct as_signal_mask *mask);
void as_signal_mask_restore(const struct as_signal_mask *mask);
