// SPDX-License-Identifier: MIT
// The file of a full record, and the thread that writes it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Creates the file at $ARENASCOPE_PROFILE_RECORD, or beside it where another process has done so, and starts the thread, which writes
// until exit(). For as_recorder_start. False: `why`.
bool as_agent_full_record_start(char *why, size_t size);
