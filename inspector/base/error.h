// SPDX-License-Identifier: MIT
// One error type for the whole inspector. A function that can fail returns bool (true: it worked) and
// writes what was tried, what was found and what to do into the caller's `struct as_error`.
// Fixed size, so that the agent can report an error without touching the heap it inspects.
#pragma once

#include <stdbool.h>

// The codes are also arenadump's exit codes; docs/user-guide.md documents each. Never renumber one.
enum as_code {
    AS_OK = 0,
    AS_INTERNAL = 1,    // a bug in arenascope: an invariant did not hold
    AS_USAGE = 2,       // the command line does not make sense
    AS_NO_TARGET = 3,   // no such process, no such file
    AS_DENIED = 4,      // the kernel does not permit the snapshot
    AS_UNSUPPORTED = 5, // a kernel thread, a zombie, 32-bit code, another architecture
    AS_BAD_INPUT = 6,   // not a core, not a dump, truncated, or a file that lies about itself
    AS_TARGET_GONE = 7, // the target exited or exec'd during the snapshot
    AS_IO = 8,          // the output could not be written (disk full, read-only, a symlink in the way)
    AS_NO_MEMORY = 9,   // own memory ran out, or no more files may be open
    AS_NO_MALLOC = 10,  // the command needs glibc's malloc, and the target does not use it
    AS_LEAKS = 11,      // arenascope leaks --fail-over: more is lost than it allows
    AS_PARTIAL = 12,    // the answer is there, but the larger part could not be searched
};

struct as_error {
    enum as_code code;
    char text[1000];
};

// Writes the error and returns false, so that a caller can `return as_fail(err, ...)`. A NULL `err` is allowed.
bool as_fail(struct as_error *err, enum as_code code, const char *format, ...) __attribute__((format(printf, 3, 4)));

// As as_fail, with ": <strerror(errno)>" appended. Maps ESRCH to AS_TARGET_GONE, EPERM/EACCES to AS_DENIED, and
// EMFILE/ENFILE (no more files may be open) to AS_NO_MEMORY, with advice; any other errno keeps `code`.
bool as_fail_errno(struct as_error *err, enum as_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// Adds to the text of an error, as far as there is room: advice that only a caller can give.
void as_error_add(struct as_error *err, const char *text);
