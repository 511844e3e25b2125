// SPDX-License-Identifier: MIT
// --max-memory: a limit for arenadump's own memory.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

// From now on this process gets so many bytes more, and no more (RLIMIT_DATA: private writable memory): what needs more fails with
// AS_NO_MEMORY. AS_UNSUPPORTED where the kernel sets no limit.
bool as_memory_limit(uint64_t bytes, struct as_error *err);
