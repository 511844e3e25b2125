// SPDX-License-Identifier: MIT
// The clone of a target, from its birth to the time when nothing of it is left. Internal to the supervisor, in whose
// process all of this runs.
#pragma once

#include "target/process/read/live_process.h"

struct as_made {
    pid_t pid;                   // the clone's, in our PID namespace; 0: there is none
    pid_t inner_pid;             // in the target's; 0: not known, or it is gone
    bool signalled;              // none was made, as a signal was on its way into the threads that could make it
    void (*late)(void *context); // to be called when the clone is not made for long, and cannot be given up
    void *context;
};

// Has one of the stopped threads make the clone, which is our tracee and stands still. False (AS_UNSUPPORTED: no thread could
// be used, or the kernel refused, or made->signalled; AS_TARGET_GONE): as_clone_find, once the target runs again, says whether there is one
// nevertheless.
bool as_clone_make(struct as_process *p, const struct as_critical *critical, struct as_made *made,
                   struct as_error *err);
// Completes what as_clone_make was not told: a thread that is killed in the middle of clone(), by another's exec, say, may
// have made a process all the same.
void as_clone_find(struct as_process *p, struct as_made *made);
// From now on the clone lives only as long as we do, and is the first to go when memory runs out. False: it has been killed.
bool as_clone_hold(pid_t pid);
// Kills the clone and has the target reap it, for as long as that takes: up to an hour when the target is stopped by SIGSTOP.
void as_clone_reap(struct as_process *p, const struct as_critical *critical, const struct as_made *made);
