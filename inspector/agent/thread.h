// SPDX-License-Identifier: MIT
// A thread made by libc: only for such a thread does malloc take its locks, and does setuid() change the user.
#pragma once

#include "target/target.h"

// Starts a detached thread that blocks every signal but those that libc needs. Call it only where malloc and the loader may be
// called. 0, or an errno.
int as_agent_thread_create(void *(*run)(void));
// Of the calling thread, which as_agent_thread_create made: memory that is certainly part of its stack, from below all that the
// agent writes up to libc's descriptor of the thread, at the upper end.
struct as_range as_agent_thread_stack(void);
// Gives the memory of that stack below the caller's frame back to the kernel: a capture needs tens of KiB of it, a wait does not.
void as_agent_thread_release_stack(void);
