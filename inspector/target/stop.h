// SPDX-License-Identifier: MIT
// How a target is kept from changing while it is read: by a stop of all threads, or by a clone.
#pragma once

#include "base/error.h"
#include "target/mapping.h"

// Code that changes what we are going to read: no thread may be caught in the middle of it.
struct as_critical {
    const struct as_range *code;   // that code
    const struct as_range *around; // and what it may call: a thread in there is in it if its stack says so
    size_t count;                  // of both
    bool complete;                 // false: there is more such code, and where it lies is not known
    bool (*held)(struct as_target *t, const void *context); // is a lock of that code taken?
    const void *context;
};

// How a target was stopped.
enum as_stop_outcome {
    AS_STOP_CLEAN = 0,  // no thread is in the middle of critical code
    AS_STOP_BUSY = 1,   // one is, at every attempt
    AS_STOP_UNKNOWN = 2 // one may be: where its code lies is not known
};

// What a backend provides.
struct as_stop_ops {
    // Stops every thread (freeze) and reads mappings and threads anew; resume undoes it. NULL for cores, and for
    // ourselves. After stop: t->threads have tp, sp, pc.
    bool (*stop)(struct as_target *t, struct as_error *err);
    void (*resume)(struct as_target *t);
    // As stop, but at a time when no thread is in the middle of critical code, if such a time comes soon: see
    // t->stop.outcome. NULL: nothing of the target runs.
    bool (*stop_clean)(struct as_target *t, const struct as_critical *critical, struct as_error *err);
    // As stop_clean, but has the target clone itself then, copy-on-write, and run on: until resume all that is read is
    // the clone's, but for what children do not get: see as_mapping.out_of_reach. AS_UNSUPPORTED or AS_NO_MEMORY, with the
    // reason: this target cannot be cloned, or not now; it runs then. NULL: no target of this kind can.
    bool (*fork)(struct as_target *t, const struct as_critical *critical, struct as_error *err);
    // Whether all that was read since the last stop (or since it was opened) was the target's own memory. False and
    // AS_TARGET_GONE: it exited or exec'd meanwhile, and the rest read as nothing; t->stop.deadline_exceeded: it was
    // let go. NULL: it cannot go away.
    bool (*intact)(struct as_target *t, struct as_error *err);
};

struct as_target_stop {
    bool active;                  // the target stands still, or its clone is read
    enum as_stop_outcome outcome; // of the last stop_clean or fork
    bool job_control;             // at the last fork the target had been stopped by a signal (SIGSTOP, Ctrl-Z)
    const char *let_go;           // why the last clone was given up before all was read of it; NULL: it was not
    const char *note;             // what else the user must know of the outcome; NULL: nothing
    uint64_t duration_ns;         // of the last stop, stop to resume; 0 before the first
    // How long the target may stand still in the next stop_clean or fork, all attempts together; 0: no limit. Past the limit
    // the target is resumed at once, and stop_clean, fork or intact fails (AS_DENIED) and sets `deadline_exceeded`. A clone
    // that has begun has no limit, but a clone that is expected to take longer is not begun.
    uint64_t limit_ns;
    bool deadline_exceeded;
    // The last stop_clean or fork failed (AS_DENIED): a thread is in an uninterruptible wait; or, before anything was touched, a thread
    // sleeps under a seccomp filter that may kill it for how the kernel restarts its sleep. Unless `force`: then the sleep may begin anew.
    bool unstoppable;
    bool force;
};
