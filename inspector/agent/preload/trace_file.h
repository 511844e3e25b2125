// SPDX-License-Identifier: MIT
// The file of a trace, and the thread that writes it.
#pragma once

#include "base/error.h"

#include <stdbool.h>

// Creates the file at $ARENASCOPE_PROFILE_TRACE, or beside it where another process has done so, and starts the thread, which writes
// until exit(). For as_recorder_start. AS_IO: the file cannot be written.
bool as_agent_trace_start(struct as_error *err);
