// SPDX-License-Identifier: MIT
// A thread that makes a system call for us (remote.h), as far as all architectures share it. Internal to target/ and inject/.
#pragma once

#include "target/process/read/live_process.h"

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

// Blocks all of its signals. False: it has been killed.
bool as_remote_block(const struct as_remote *r);
// Lets the thread run to a stop of that kind, past all others. False: it has been killed.
bool as_remote_run_until(struct as_remote *r, int request, int wanted);
