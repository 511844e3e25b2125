// SPDX-License-Identifier: MIT
// One line for each event, to stderr or a file; off unless $ARENASCOPE_LOG asks for it.
#pragma once

#include <stdbool.h>

// `where`: "1" or "stderr", a path, or NULL for off.
void as_log_set(const char *where);
bool as_log_wants_stderr(void);
void as_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
