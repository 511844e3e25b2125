// SPDX-License-Identifier: MIT
// A stopped thread calls a function of its own process. Internal to inject/.
#pragma once

#include "inject/sigreturn_frame.h"
#include "target/process/clone/remote.h"

struct as_loader_wait;

// How a call is made.
struct as_function_call {
    const struct as_process *process;
    const struct as_way_back *way;
    struct as_remote *remote;    // the thread, taken hold of (as_remote_begin)
    uint64_t stack, stack_top;   // memory in the target that serves as the call's stack; the end aligned to 16
    uint64_t errno_at;           // address of the thread's errno; 0: not known
    int32_t errno_value;         // that it finds there again if we are killed meanwhile
    uint64_t watchdog_ns;        // after so long...
    void (*late)(void *context); // ... this is called, once; and it is waited on
    void *context;
    struct as_loader_wait *yield; // what the thread may be taken out of again; NULL: nothing
    bool *yielded;                // whether it was: then there is no result
};

// Calls function(arguments[0], ...) and waits until it has returned. The thread's own stack is not touched, its vector and
// floating-point registers are as before, and its signals wait, but those that an instruction of its own may raise. Afterwards
// registers, signal mask and errno are its own again. If we are killed meanwhile, it finds back by itself. False: AS_TARGET_GONE, it has
// been killed; anything else, nothing was called, and why.
bool as_call(const struct as_function_call *call, uint64_t function, const uint64_t arguments[3], uint64_t *result,
             struct as_error *err);

// Has the thread make its system calls, from now on and until r->shelter is cleared, so that it finds back by itself if we are killed
// in the middle of one. The stack must stay, and errno be known. Where libc's code has been changed, nothing is done. False:
// as as_call.
bool as_call_shelter(const struct as_function_call *call, struct as_error *err);

// What of a function's call differs from one architecture to the next: one file each, call_x86_64.c and call_aarch64.c.
// Internal to inject/.

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
