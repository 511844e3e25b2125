// SPDX-License-Identifier: MIT
// Stopping one thread of a process, to have it make a system call. Internal to target/ and inject/.
#pragma once

#include "target/process/read/live_process.h"

// Stops one thread alone: it becomes the last of the tracees, with its registers. False: it would not stop, has ended, or its
// sleep would begin anew (restart.h).
bool as_process_stop_one(struct as_process *p, pid_t tid);
// Would a stop make the call fail that this thread waits in, though no signal came? Then rather another one.
bool as_process_is_touchy(const struct as_process *p, pid_t tid);
