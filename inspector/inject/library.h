// SPDX-License-Identifier: MIT
// The agent's library, libarenascope.so: arenadump has it in itself.
#pragma once

#include "base/output.h"

struct as_library {
    int fd;           // the caller's to close
    const char *name; // for error texts
};

// Opens the file that $ARENASCOPE_LIBRARY names; else our own, as a file in memory: no disk is written to, and nobody else can exchange
// what is loaded. fd -1 and AS_NO_TARGET (why the file cannot be opened; this build has none) or AS_IO (no memory for it).
bool as_library_open(struct as_library *library, struct as_error *err);

// Writes our own into a file that has been begun. AS_NO_TARGET: this build has none; AS_IO.
bool as_library_write(struct as_output *to, struct as_error *err);
