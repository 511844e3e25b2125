// SPDX-License-Identifier: MIT
// One line for each event, to stderr or a file; off unless $ARENASCOPE_LOG asks for it.
#pragma once

#include <stdbool.h>

// `where`: "1" or "stderr", a path, or NULL for off.
void as_log_set(const char *where);
// Whether the log goes to stderr, and descriptor 2 is still what it was then: a program that has closed it may have got its number for
// a file of its own, into which nothing is written.
bool as_log_has_stderr(void);
void as_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
