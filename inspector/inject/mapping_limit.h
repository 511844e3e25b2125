// SPDX-License-Identifier: MIT
// How many mappings a process may still have.
#pragma once

#include "base/error.h"
#include "inject/inject_options.h"
#include "target/process/read/live_process.h"

// May so many mappings be added, and AS_SPARE_MAPPINGS be left for the process's own? With less its own mmap would fail meanwhile. To
// be called with its mappings just read. False: AS_DENIED, with the numbers. True also where the kernel does not tell its limit.
bool as_inject_has_mappings(const struct as_process *p, unsigned count, struct as_error *err);
