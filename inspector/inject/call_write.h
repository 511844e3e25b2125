// SPDX-License-Identifier: MIT
// Internal to inject/.
#pragma once

#include "target/process/read/live_process.h"

// Writes to the target's memory, through a thread of it that we hold.
bool as_call_write(const struct as_process *p, pid_t tid, uint64_t address, const void *bytes, size_t length,
                   struct as_error *err);
