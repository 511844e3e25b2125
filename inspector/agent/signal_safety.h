// SPDX-License-Identifier: MIT
// Whether a signal handler may start a thread: whether the code that the signal has interrupted is outside of malloc and the loader.
#pragma once

#include <stdbool.h>

// Finds the code of libc and of the loader. To be called once, first, where dl_iterate_phdr may be called.
void as_signal_safety_learn(void);

// Whether the interrupted code (a handler's ucontext_t) is outside of malloc, the loader, and all else that pthread_create needs:
// in code of the application, or in a system call that waits. False where that cannot be proven. Async-signal-safe.
bool as_signal_is_safe(const void *ucontext);
