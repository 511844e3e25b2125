// SPDX-License-Identifier: MIT
// The agent's threads, and the last of them, in which exit() runs where no thread of the program is left.
#pragma once

#include "target/target.h"

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
