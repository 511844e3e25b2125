// SPDX-License-Identifier: MIT
// Making a stopped thread of a live process perform a system call, and putting it back exactly as it was: registers,
// signal mask, the call that it was waiting in, a signal that arrives meanwhile. Nothing is written to the target's
// memory; the only instruction that runs is a system call instruction that is there already. Internal to target/ and inject/.
#pragma once

#include "target/process/clone/remote_thread.h"

// For how long a system call may last in a target unless told.
#define AS_REMOTE_LIMIT_NS UINT64_C(10000000000)

// Is the stopped thread in a restartable sequence (rseq(2))? Made to run elsewhere, it would not be sent out of it. (Before Linux
// 5.13 this cannot be asked: no.)
bool as_remote_in_sequence(const struct as_tracee *tracee);

// Takes hold of a tracee that has stopped by our interrupt (not by a signal, not by a group stop). AS_UNSUPPORTED when
// it should not be touched: seccomp that cannot be suspended, a restartable sequence, user dispatch of system calls.
// AS_DENIED: a fault of its own waits to be delivered (as_has_fault_pending); it can be used later. All code that is run in a
// thread of the target begins here.
bool as_remote_begin(struct as_remote *r, const struct as_process *p, const struct as_tracee *tracee,
                     uint64_t instruction, struct as_error *err);
// Performs a call, and puts everything back: if we are killed between two calls, the thread goes on as if there had been none. *result
// is what it returned, negative errno included. A process that it makes is our tracee from its first instant, and has not run a single
// instruction. False: the thread has been killed (AS_TARGET_GONE); or it entered the kernel with another call or from elsewhere,
// as code that was changed meanwhile does, and nothing was called (AS_DENIED); or the call had to be interrupted, as it
// did not return within r->limit_ns (AS_DENIED). A call that cannot be interrupted is waited for; r->late tells of it.
bool as_remote_call(struct as_remote *r, long number, const uint64_t arguments[6], int64_t *result,
                    struct as_error *err);
// Puts registers and signal mask back. False: it has been killed.
bool as_remote_put_back(const struct as_remote *r);
// Lets go of it; the tracee is stopped as it was at the beginning. False (AS_TARGET_GONE): it has been killed.
bool as_remote_end(struct as_remote *r, struct as_error *err);

// Where a system call instruction stands in the target: at the call that a stopped thread waits in, or in the vdso, or in
// one of the ranges; in a private mapping of a file that cannot be written, or in the vdso, on a page that has not been
// written since either (pagemap). 0: none was found.
uint64_t as_remote_instruction(struct as_process *p, const struct as_range *code, size_t count);
// Is an instruction at `address` in such a place?
bool as_remote_is_sound(const struct as_process *p, uint64_t address);
