// SPDX-License-Identifier: MIT
// A stopped thread calls a function of its own process. Internal to inject/.
#pragma once

#include "inject/call_state.h"

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
