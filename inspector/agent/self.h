// SPDX-License-Identifier: MIT
// The process we are part of, and its malloc: found once, and again when libraries have come or gone.
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
// How many bytes of this library's mappings and of the calling thread's stack are in memory; AS_UNKNOWN where the kernel does not
// tell. For the keeper only (as_agent_thread_stack). What libc's heap keeps for the loader is not among them: some hundred bytes.
bool as_self_resident(uint64_t *bytes, struct as_error *err);
// In a child of fork(), whose parent may have been in the middle of it: forgets what was found.
void as_self_forget(void);
