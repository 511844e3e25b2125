// SPDX-License-Identifier: MIT
// The registers of a stopped thread: one file for each architecture, registers_x86_64.c and registers_aarch64.c. Internal to target/
// and inject/.
#pragma once

#include "target/process/read/live_process.h"

// Reads a stopped thread's registers; false when it has ended.
bool as_registers_read(pid_t tid, struct as_registers *out);
// Was it waiting in a system call that our stop has interrupted?
bool as_registers_waiting(const struct as_registers *r);
// To be called before a thread runs on: has the kernel restart a call that would fail with EINTR for our sake alone.
void as_registers_mend(pid_t tid, const struct as_registers *r);

// Does the kernel, as the stopped thread goes on, restart its call by restart_syscall? (On aarch64 it does not show: it may.)
bool as_registers_restarts_elsewhere(pid_t tid, struct as_sleep *out);
// What the kernel does with an interrupted call, by its result: let it fail, make it again, or restart it by restart_syscall
// (linux/errno.h: EINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK).
enum as_replacement { AS_FAIL_WITH_EINTR = -4, AS_MAKE_AGAIN = -514, AS_RESTART_ELSEWHERE = -516 };
// Replaces that result, if AS_RESULT_CAN_BE_REPLACED.
void as_registers_replace_result(pid_t tid, enum as_replacement result);
#if defined(__x86_64__)
#define AS_RESULT_CAN_BE_REPLACED 1
#else
#define AS_RESULT_CAN_BE_REPLACED 0
#endif
// Is it the result of a call that the kernel restarts (-ERESTARTSYS to -ERESTART_RESTARTBLOCK)?
static inline bool as_is_restart(int64_t result)
{
    return result <= -512 && result >= -516;
}
