// SPDX-License-Identifier: MIT
// How a stopped thread calls a function of its own process (call.h). Internal to inject/.
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
