// SPDX-License-Identifier: MIT
// The state that the agent's units share. It is global, because a signal handler has nowhere else to find it.
//
// The units, each above those that it uses:
//
//   signal_mask.c      keeps signals away from a thread of the application in which the agent works
//   log.c              one line for each event, to stderr or a file
//   errors.c           the last error of each thread, and texts for errno
//   state.c            the state below, and its lock
//   thread.c           a thread made by libc, and its stack
//   last_thread.c      the agent's threads, and the one in which exit() runs where no thread of the program is left
//   own_process.c      this process as a target, and its malloc
//   arena_lock.c       locks each arena while a snapshot walks it
//   dump_name.c        the names of dumps
//   own_snapshot.c     a snapshot of this process, as a dump or as a summary
//   trim.c             a trim of this process, and its forecast
//   policy.c           the automatic trim; policy_parse.c reads $ARENASCOPE_TRIM
//   profile_session.c  a profile that a client of the control socket asks for
//   dump_folder.c      a directory with the newest dumps, in a bounded part of the disk
//   dump_at.c          dumps at a condition; dump_at_parse.c reads $ARENASCOPE_DUMP_AT
//   control.c          the control socket
//   descriptors.c      a descriptor table of its own for a thread
//   worker.c           the worker thread, which writes dumps, runs the policy and serves the control socket
//   signal_safety.c    whether a signal handler may start a thread
//   exit_dump.c        the wait at exit() for a dump that was asked for
//   signals.c          the signal that asks for a dump
//   start.c            the start of the library, and of a child of fork()
//   exit_leaks.c     the wait at exit() for a snapshot from outside
//   preloaded.c        what the environment asks of a preloaded library alone
//   trace_file.c       the thread that writes a trace into its file (the gem is built without it)
//   environment.c      what the environment asks for (the gem is built without it)
//   api.c              the functions of arenascope.h
#pragma once

#include "arenascope.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum as_agent_worker_state { AS_AGENT_WORKER_NONE, AS_AGENT_WORKER_STARTING, AS_AGENT_WORKER_RUNNING };

struct as_agent {
    // The process that this state belongs to. A child of vfork() or of a bare clone() finds its parent's pid here, and must not
    // touch the state.
    pid_t pid;
    // The signal handler uses these, so every access is atomic.
    uint32_t worker;   // as_agent_worker_state
    pid_t worker_tid;  // 0: there is no worker thread
    uint32_t wanted;   // dumps asked for so far
    uint32_t finished; // of these, so many have been written, or could not be: a futex
    int32_t signal;    // that asks for one; 0: none
    // Protected by `lock`, which a handler never takes.
    uint32_t lock;
    unsigned flags; // of the dumps: ARENASCOPE_CHUNKS
    bool policy_set;
    struct arenascope_policy policy;
    struct arenascope_policy_stats stats;
    int (*dump_at)(
        void); // as_dump_at_run, once somebody has asked for dumps at a condition; it may not be loaded otherwise
    // Used by the worker thread alone.
    uint32_t served; // of `wanted`
    uint32_t dumps;  // how many names of dumps have been used
};
extern struct as_agent as_agent;
extern char as_agent_pattern[PATH_MAX]; // of the dumps' names, absolute; protected by as_agent.lock

// Marks a variable that is written only where something is asked for that an injected agent seldom does: it lies behind all others
// (cold.ld), so that these share a page.
#define AS_AGENT_RARE __attribute__((section(".bss.as_rare")))

// A lock among the agent's own threads and callers. It is held briefly, and never across a call into malloc or the loader.
void as_agent_lock(void);
void as_agent_unlock(void);

// Whether the loader runs a program that has more rights than its caller (setuid). The agent does nothing then.
bool as_agent_is_privileged(void);
