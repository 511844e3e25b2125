// SPDX-License-Identifier: MIT
// May a thread be started here and now, in the middle of whatever a signal has interrupted?
#pragma once

#include <stdbool.h>

// Learns where libc's and the loader's code lies. Once, where dl_iterate_phdr may be called.
void as_signal_safety_learn(void);

// Whether what the handler's context interrupted is outside of malloc, the loader, and whatever else pthread_create needs: in
// code of the application, or in a system call that waits. Async-signal-safe.
bool as_signal_is_safe(const void *ucontext);
