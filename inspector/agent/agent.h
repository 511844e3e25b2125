// SPDX-License-Identifier: MIT
// What the parts of the agent share: the only global state of the project, because a signal handler has nowhere else to look.
#pragma once

#include "arenascope.h"
#include "base/error.h"
#include "target/target.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// SIGSTKFLT: no kernel has ever sent it, and nobody waits for it. The signal that asks for dumps would not do: a signalfd of it
// would also take it from a program that blocks it in all of its threads, and waits for it.
enum { AS_AGENT_WORKER_SIGNAL = 16 };

enum as_agent_worker_state { AS_AGENT_WORKER_NONE, AS_AGENT_WORKER_STARTING, AS_AGENT_WORKER_RUNNING };

struct as_agent {
    // Whose state this is. A child of vfork() or of a bare clone() finds its parent's here, and keeps its hands off.
    pid_t pid;
    // Touched by the handler, so atomic all of them.
    uint32_t worker;  // as_agent_worker_state
    pid_t worker_tid; // its tid; 0: there is none
    uint32_t wanted;  // dumps asked for so far
    int32_t signal;   // that asks for one; 0: none
    // Under `lock`, never taken by a handler.
    uint32_t lock;
    char pattern[PATH_MAX]; // of the dumps' names, absolute
    unsigned flags;         // ARENASCOPE_CHUNKS
    bool policy_set;
    struct arenascope_policy policy;
    struct arenascope_policy_stats stats;
    uint32_t served; // of `wanted`; the keeper's own, as the next one
    uint32_t dumps;  // how many names of dumps have been used
};
extern struct as_agent as_agent;

// A lock among our own threads and callers; held for moments, never across a call into malloc or the loader.
void as_agent_lock(void);
void as_agent_unlock(void);

// start.c: whether the loader runs a program with more rights than its caller (setuid): nothing is done then.
bool as_agent_is_privileged(void);
// Has a dump of that name written for each such signal; 0: no more.
bool as_signal_dump_on(int signal, const char *pattern, unsigned flags, struct as_error *err);

// thread.c
// Starts the keeper if it does not run; to be called only where malloc and the loader may be. 0, or an errno.
int as_agent_worker_start(void);
// Starts a thread, detached, every signal blocked that libc does not need. 0, or an errno.
int as_agent_thread_create(void *(*run)(void *));
// Of the keeper, called by itself: memory that is certainly part of its stack, down to where nothing of ours is ever written
// and up to libc's descriptor of it, which lies at its upper end.
struct as_range as_agent_thread_stack(void);
// Gives back what is in memory of the keeper's stack below the caller's frame: a look needs tens of KiB, waiting for the next
// does not.
void as_agent_thread_release_stack(void);
// Has the keeper look whether there is something to do. Async-signal-safe; nothing happens when it does not run.
void as_agent_worker_wake(void);
// In a child of fork(): there is no keeper here.
void as_agent_worker_forget(void);

// signal.c
// Takes the signal, if the application has not; 0: gives it back.
bool as_signal_install(int signal, struct as_error *err);
// Whether the signal's handler is still ours.
bool as_signal_is_ours(int signal);
// Has this thread interrupted once it has run for so long, to start the keeper then; in a child of fork(), where it cannot be
// started now.
void as_signal_send_later(uint64_t cpu_ns);
void as_signal_forget(void);
// Asks for a dump; async-signal-safe. ARENASCOPE_USAGE when no signal was taken.
int as_signal_request_dump(void);

// keeper.c: the keeper's life.
void *as_agent_worker_run(void *unused);
