// SPDX-License-Identifier: MIT
// Signals that wait for a stopped thread. Internal to target/ and inject/.
#pragma once

#include "target/process/read/live_process.h"

#include <signal.h>

// The bit of a signal in a mask of signals.
static inline uint64_t as_signal_bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

// What an instruction of the thread itself raises: a load from an address where nothing is, an illegal instruction, a
// breakpoint, a system call that a seccomp filter traps. Its handler inspects the registers, to see which instruction it was.
uint64_t as_faults(void);

// Is such a signal on its way into the stopped thread? The kernel queues a fault, and then stops the thread for us before it
// has delivered it. Were the thread moved to other code now, the handler would find registers that are not those of the
// fault, and end the program. So the thread has to go on first. True also where the kernel does not say (it has ended).
bool as_has_fault_pending(const struct as_process *p, pid_t tid);

// Sends the stopped thread the SIGSTOP (`signal`; 0: none) that was taken from it in a call. Not if a SIGCONT has come since.
void as_give_back_stop(const struct as_process *p, pid_t tid, int signal);
