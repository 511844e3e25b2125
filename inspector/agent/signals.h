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

// Whether a signal handler may start a thread: whether the code that the signal has interrupted is outside of malloc and the loader.

// Finds the code of libc and of the loader. To be called once, first, where dl_iterate_phdr may be called.
void as_signal_safety_learn(void);

// Whether the interrupted code (a handler's ucontext_t) is outside of malloc, the loader, and all else that pthread_create needs:
// in code of the application, or in a system call that waits. False where that cannot be proven. Async-signal-safe.
bool as_signal_is_safe(const void *ucontext);

// From now on exit() waits, for at most half a minute, until each dump is written that was asked for before. Nothing if it was called
// before.
void as_exit_dump_on(void);
