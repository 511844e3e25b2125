// SPDX-License-Identifier: MIT
// What a JIT compiler says of its code, in the file that perf reads: /tmp/perf-PID.map.
#pragma once

#include "symbolize/functions.h"

#include <sys/types.h>

// Reads lines "START SIZE NAME" (hexadecimal) of a file below `root` that belongs to `owner` and is no link: anybody may write into
// /tmp. Success also if there is none. False: AS_NO_MEMORY.
bool as_perf_map_read(struct as_functions *f, int root, const char *path, uid_t owner, struct as_error *err);
