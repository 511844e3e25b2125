// SPDX-License-Identifier: MIT
// A thread made by libc: only for such a thread does malloc take its locks, and does setuid() change the user.
#pragma once

#include "target/target.h"

#define AS_AGENT_STACK_BYTES (512 * 1024) // the core keeps buffers of tens of KiB on it

// Starts a detached thread that blocks every signal, and has a stack of AS_AGENT_STACK_BYTES, or of the size that libc gives the
// program's own (`stack` is 0). It has to call as_agent_thread_begin() first. Call this only where malloc and the loader may be
// called. 0, or an errno.
int as_agent_thread_create(void *(*run)(void *), void *argument, size_t stack);
// Unblocks the signals that libc sends to every thread, which the creating thread may have blocked: setuid() would wait for this
// one for ever.
void as_agent_thread_begin(void);
// Names the calling thread, by which it is found from outside.
void as_agent_thread_name(const char *name);
// Has `ending` called when the calling thread ends by itself, and not with the process. At the first call, that takes one of the
// keys that libc has for values of threads, and may have libpthread loaded. False: there is no such key.
bool as_agent_thread_at_end(void (*ending)(void *));
// Returns memory that is certainly part of the calling thread's stack, from below all that the agent writes up to libc's descriptor of the
// thread, at the upper end. as_agent_thread_create made the thread with AS_AGENT_STACK_BYTES.
struct as_range as_agent_thread_stack(void);
// Gives the memory of that stack below the caller's frame back to the kernel: a snapshot needs tens of KiB of it, a wait does not.
void as_agent_thread_release_stack(void);
