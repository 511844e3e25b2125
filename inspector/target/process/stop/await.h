// SPDX-License-Identifier: MIT
// The next stop of a thread. Internal to target/ and inject/.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// Waits for the next stop of a tracee, leaving it to be waited for again (see as_tracee_read_registers). *stop: the signal, and from
// bit 8 on the event; 0: it has not stopped by the deadline (as_now_ns; UINT64_MAX: none). False: it has ended. To be called with
// SIGCHLD blocked.
bool as_tracee_await(pid_t tid, uint64_t deadline_ns, int *stop);
