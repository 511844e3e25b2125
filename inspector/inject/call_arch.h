// SPDX-License-Identifier: MIT
// What of a function's call differs from one architecture to the next: one file each, call_x86_64.c and call_aarch64.c.
// Internal to inject/.
#pragma once

#include "inject/call_state.h"

// Where the ucontext is, from the stack pointer of a signal handler's first instruction on.
#if defined(__x86_64__)
enum { AS_HANDLER_CONTEXT = 8 }; // behind the restorer's address
#elif defined(__aarch64__)
enum { AS_HANDLER_CONTEXT = 128 }; // behind the siginfo
#endif

struct as_call_setup {
    uint64_t begin;            // the stack pointer with which the function begins
    uint64_t stop, stop_stack; // program counter and stack pointer at the system call that it returns to
    int state_kind;            // which set of them ptrace is asked for (NT_*)
    size_t state_size;
    uint8_t state[AS_STATE_MOST]; // vector and floating-point registers
};

// Keeps the registers that as_remote_begin does not, and writes what the function finds above it on its stack. False: AS_TARGET_GONE, or
// AS_DENIED, AS_UNSUPPORTED: nothing was changed, and why.
bool as_call_prepare(struct as_call_setup *launch, const struct as_function_call *call, struct as_error *err);
// Has the thread call the function when it goes on. False: it has been killed.
bool as_launch_set(const struct as_call_setup *launch, const struct as_remote *r, uint64_t function,
                   const uint64_t arguments[3]);
// Checks, when a thread is at a system call, whether the function has returned (*back). Then that call is not made, and *result is what the
// function returned. False: it has been killed.
bool as_call_poll(const struct as_call_setup *launch, const struct as_remote *r, bool *back, uint64_t *result);
// Puts the registers back that as_call_prepare has kept. False: it has been killed.
bool as_call_restore(const struct as_call_setup *launch, const struct as_remote *r);
