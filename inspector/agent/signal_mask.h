// SPDX-License-Identifier: MIT
// The signal mask of a thread of the application while the agent works in it: no handler of the application runs meanwhile, and
// no signal that a write of the agent's raises stays pending.
#pragma once

#include <stdint.h>

struct as_signal_mask {
    uint64_t before, pending; // as they were
};

// Blocks this thread's signals, but for those that libc needs and those that a fault of the agent's own raises. Both functions are
// async-signal-safe.
void as_signal_mask_block(struct as_signal_mask *mask);
void as_signal_mask_restore(const struct as_signal_mask *mask);
