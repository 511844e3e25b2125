// SPDX-License-Identifier: MIT
// This process as a target, and its malloc, which is searched for once, and again after libraries were loaded or unloaded.
#pragma once

#include "libc/libc.h"
#include "target/target.h"

struct as_self {
    struct as_target *target;
    struct as_malloc malloc;
};

// AS_NO_MALLOC where malloc is not glibc's. `counted` as of as_target_open_self. Close it in either case.
bool as_self_open(struct as_self *own, bool counted, struct as_error *err);
void as_self_close(struct as_self *own);
// How many bytes of this library's mappings and of the calling thread's stack are resident; AS_UNKNOWN where the kernel does not
// tell. For the worker thread alone (as_agent_thread_stack), and with the stack of the last thread, if there is one (last_thread.h).
// The loader's own records of the library are not counted: some hundred bytes in libc's heap.
bool as_self_resident(uint64_t *bytes, struct as_error *err);
// Where the recorder's code is, or has its room: an injected copy comes without it (inject/load_recorder.c).
struct as_range as_self_recorder(void);
// Forgets the malloc that was found: for a child of fork(), whose parent may have been writing it down.
void as_self_forget(void);
