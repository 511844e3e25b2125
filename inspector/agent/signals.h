// SPDX-License-Identifier: MIT
// The signal that asks for a dump.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

// Has a dump of that name written for each such signal. Signal 0: no more dumps.
bool as_signal_dump_on(int signal, const char *pattern, unsigned flags, struct as_error *err);
// Asks for a dump. Async-signal-safe. ARENASCOPE_USAGE where no signal has been chosen, or the application has taken it.
int as_signal_request_dump(void);
// Sends the signal to this thread once it has run for so long, so that the handler starts the worker thread then. For a child of
// fork(), where no thread can be started at once.
void as_signal_send_later(uint64_t cpu_ns);
// In a child of fork(), which has none of its parent's timers.
void as_signal_forget(void);
