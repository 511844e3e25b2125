// SPDX-License-Identifier: MIT
// Making a stopped thread of a live process perform a system call, and putting it back exactly as it was: registers,
// signal mask, the call that it was waiting in, a signal that arrives meanwhile. Nothing is written to the target's
// memory; the only instruction that runs is a system call instruction that is there already. Internal to target/ and inject/.
#pragma once

#include "target/process/process.h"

// PTRACE_O_SUSPEND_SECCOMP, which older headers lack.
enum { AS_SUSPEND_SECCOMP = 1 << 21 };

// Bytes that the registers which a system call destroys take at most: NT_ARM_SVE with vectors of 256 bytes, the longest that there can be.
enum { AS_WIDE_MOST = 12 * 1024 };

// Where a thread makes its system calls so that it returns to its own work even if we are killed while it makes one: behind the
// instruction comes a return, and that leads to a signal frame (inject/sigreturn_frame.h).
struct as_shelter {
    uint64_t instruction; // 0: there is none
    uint64_t stack;       // the stack pointer
    uint64_t link;        // where the return leads to, on machines with a link register
};

// One thread while it works for us.
struct as_remote {
    pid_t tid;
    uint64_t instruction; // address of a system call instruction
    struct as_shelter shelter;
    uint64_t limit_ns; // for how long one call may last
    void (*late)(
        void *); // called, with `context`, when a call has been interrupted and has not returned for as long again
    void *context;
    uint64_t deadline_ns; // of the call that is being made
    bool interrupted;     // that call was told to end
    uint64_t mask;        // its blocked signals
    long options;         // that its tracing is done with (PTRACE_O_*)
    int signal;           // that arrived meanwhile although all are blocked: SIGSTOP
    bool left;            // it has left a function that it called for us (as_call): it is not ours to put back any more
    pid_t born;           // the process that the last call made, in our PID namespace; 0: none
    uint8_t saved[512];   // its registers (NT_PRSTATUS)
    size_t saved_size;
    uint8_t wide[AS_WIDE_MOST]; // those besides that a system call destroys (aarch64: SVE); wide_size 0: there are none
    size_t wide_size;
};

// For how long a system call may last in a target unless told.
#define AS_REMOTE_LIMIT_NS UINT64_C(10000000000)

// Waits for the next stop of a tracee, leaving it to be waited for again (see as_tracee_read_registers). *stop: the signal, and from
// bit 8 on the event; 0: it has not stopped by the deadline (as_now_ns; UINT64_MAX: none). False: it has ended. To be called with
// SIGCHLD blocked.
bool as_remote_await(pid_t tid, uint64_t deadline_ns, int *stop);

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

// supervisor.c
// For a process of ours that holds a target: apart from the inspector's terminal and process group, hard to kill by mistake,
// with no file open but those that we reads through, and `socket`.
void as_supervisor_stand_apart(const struct as_process *p, int socket);
