// SPDX-License-Identifier: MIT
// Carrying the agent into a process that runs: from outside, with no debugger, without stopping more of it than one thread.
//
//   refusals.c           which processes are left alone, and why
//   mapping_limit.c      ... and where it may not have many more mappings
//   filters.c            ... and where seccomp filters stand in the way
//   library.c            the library that is loaded, which is a part of arenadump (agent_file.S)
//   plan.c               what has to be known beforehand: addresses of functions, and where code lies that holds locks
//   find_thread.c        which thread does it
//   thread_safety.c      may this thread, here and now, call dlopen?
//   return_breakpoint.c  meeting a thread in its own code that is inside libc nearly always
//   call.c               a stopped thread calls a function, and is put back exactly as it was
//   sigreturn_frame*.c   ... even when we are killed meanwhile
//   injector.c           the process of ours that does it, so that nothing is left half done when we are killed
//   client.c             talking with the agent, once it is there
//   load_recorder.c      the recorder's code, for a profile
//   entry/               the recorder's hooks at the entries of libc's functions: instructions that are moved, plan, patch, guard
//
// docs/injection.md explains the whole, with what was measured.
#pragma once

#include "base/error.h"
#include "inject/inject_options.h"
#include "target/process/read/live_process.h"
#include "target/target.h"

// Loads the library into the process, unless it is there, and starts its thread. `t` is a live process; none of its threads
// is held by us. False: AS_UNSUPPORTED or AS_NO_MALLOC (refused: never possible in this process), AS_DENIED (refused: not
// now, or not to us), AS_TARGET_GONE, AS_BAD_INPUT (the library is none of ours). In each of these cases the target is as
// before, but for one: AS_DENIED by the watchdog says that a thread still waits in dlopen; a process of ours stays with it and
// puts it back when that returns.
bool as_inject(struct as_target *t, const struct as_inject_options *options, struct as_inject_result *out,
               struct as_error *err);

// Which seccomp filters of a process stand in the way of the agent.

// The agent is loaded, and its thread started, by a thread that has no filter: is there one? `everywhere`: what is asked for runs in
// all threads, as the recorder does, and no thread may have a filter. False: AS_UNSUPPORTED, or AS_TARGET_GONE.
bool as_inject_passes_filters(struct as_process *p, bool everywhere, struct as_error *err);

// How many mappings a process may still have.

// May so many mappings be added, and AS_SPARE_MAPPINGS be left for the process's own? With less its own mmap would fail meanwhile. To
// be called with its mappings just read. False: AS_DENIED, with the numbers. True also where the kernel does not tell its limit.
bool as_inject_has_mappings(const struct as_process *p, unsigned count, struct as_error *err);
