// SPDX-License-Identifier: MIT
// At the end of the program: somebody outside inspects what it still holds (arenascope run --leaks).
#pragma once

#include "base/error.h"

#include <stdbool.h>

// Makes the process wait at its exit() until the listener at the abstract AF_UNIX address (SOCK_SEQPACKET) `name` (without its leading NUL)
// has inspected, that is, until the connection is closed. AS_USAGE for a name that is too long.
bool as_exit_leaks_wait(const char *name, struct as_error *err);
