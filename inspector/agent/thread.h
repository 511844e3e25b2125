// SPDX-License-Identifier: MIT
// A thread made by libc: only for such a thread does malloc take its locks, and does setuid() change the user.
#pragma once

#include "target/target.h"

#include <stdbool.h>

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

// The agent's threads, and the last of them, in which exit() runs where no thread of the program is left.

// When the library is loaded: the first thread's end will be noticed, if this is the first thread.
void as_agent_last_thread_prepare(void);
// In a child of fork(), which has none of the agent's threads.
void as_agent_last_thread_in_child(void);
// Starts a thread of the agent's, as as_agent_thread_create does. 0, or an errno.
int as_agent_thread_start(void *(*run)(void));
// Whether the first thread has ended, and all threads that are left are the agent's, by a descriptor of /proc/self: the process ends
// with its last thread, so they have to end.
bool as_agent_is_alone(int proc);
// Memory that the last thread's stack has, which as_agent_thread_stack() does not count: empty where there is no such thread.
struct as_range as_agent_last_thread_stack(void);

// A descriptor table of its own for a thread of the agent's: nothing that the application does with its table touches the agent's
// descriptors, and the application's children inherit none of them.

// A thread does this first: until then it shares the application's table. It keeps stderr alone, where the log goes there, and gets
// its own working directory and root. False: the kernel or a sandbox refuses it.
bool as_agent_leave_descriptors(void);
