// SPDX-License-Identifier: MIT
// A stopped thread calls a function of its own process. Internal to inject/.
#pragma once

#include "inject/sigreturn_frame.h"
#include "target/process/clone/remote.h"

struct as_loader_wait;

// How a call is made.
struct as_call {
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
bool as_call(const struct as_call *call, uint64_t function, const uint64_t arguments[3], uint64_t *result,
             struct as_error *err);

// Has the thread make its system calls, from now on and until r->shelter is cleared, so that it finds back by itself if we are killed
// in the middle of one. The stack must stay, and errno be known. Where libc's code has been changed, nothing is done. False:
// as as_call.
bool as_call_shelter(const struct as_call *call, struct as_error *err);

// Writes to the target's memory, through a thread of it that we hold.
bool as_call_write(const struct as_process *p, pid_t tid, uint64_t address, const void *bytes, size_t length,
                   struct as_error *err);
