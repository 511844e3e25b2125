// SPDX-License-Identifier: MIT
// What the environment asks of a preloaded library alone: a profile, dumps at a condition, a wait at exit(). Most of the code lies with the
// recorder's (cold.ld): an injected library comes without it.
#pragma once

#include "base/error.h"

#include <stdbool.h>

// `asked` reads a variable; NULL: nothing is asked for. What is wrong with one stands in the log.
void as_preloaded_start(const char *(*asked)(const char *variable), unsigned flags);

// Creates the file at $ARENASCOPE_PROFILE_TRACE, or beside it where another process has done so, and starts the thread, which writes
// until exit(). For as_recorder_start. AS_IO: the file cannot be written.
bool as_agent_trace_start(struct as_error *err);

// At the end of the program: somebody outside inspects what it still holds (arenascope run --leaks).

// Makes the process wait at its exit() until the listener at the abstract AF_UNIX address (SOCK_SEQPACKET) `name` (without its leading NUL)
// has inspected, that is, until the connection is closed. AS_USAGE for a name that is too long.
bool as_exit_leaks_wait(const char *name, struct as_error *err);
