// SPDX-License-Identifier: MIT
// The process of ours that holds a target. Internal to target/process/, and to inject/, which has one like it.
#pragma once

#include "target/process/read/live_process.h"

// What the supervisor tells once the target is caught, followed by `thread_count` struct as_thread (without names).
struct as_birth {
    struct as_error err; // code AS_OK: it is
    pid_t pid;           // the clone's; 0: none was wanted
    uint64_t pause_ns;
    uint64_t due_ns; // of a freeze: when the target is let go in any case; 0: when the socket is closed
    enum as_stop_outcome outcome;
    bool deadline_exceeded, unstoppable; // as as_target_stop
    uint32_t thread_count;
};
// The supervisor's whole life, in a process of its own: stops the target or clones it, tells through `socket`, and holds it
// until the other end is closed (by the inspector, or by its death). Then it lets the target go, and last tells how long it
// stood still (8 bytes); or it kills the clone and has the target reap it. If it had to do that earlier (clone_watch.c), it tells how long
// the target stood still, too.
_Noreturn void as_supervisor_run(struct as_process *p, const struct as_critical *critical, bool clone, int socket);

// For a process of ours that holds a target: apart from the inspector's terminal and process group, hard to kill by mistake,
// with no file open but those that we reads through, and `socket`.
void as_supervisor_stand_apart(const struct as_process *p, int socket);
