// SPDX-License-Identifier: MIT
// Where a thread is, or where a signal handler will go on. Internal to thread_safety.c and the files of it that differ
// from one architecture to the next, thread_safety_x86_64.c and thread_safety_aarch64.c.
#pragma once

#include "inject/plan.h"

struct as_place {
    uint64_t pc, sp;
    uint64_t signature; // as as_registers has it
    uint64_t lr;        // likewise; of a handler's place 0
    bool waiting;
    bool on_futex;     // while it waits: for a futex, or it may be (a signal frame does not tell the call)
    uint64_t argument; // the call's first, which is a lock's address then; AS_UNKNOWN: it may be any
};

static inline bool as_is_code(const struct as_target *t, uint64_t address)
{
    const struct as_mapping *m = as_target_mapping_at(t, address);
    return m && (m->prot & AS_PROT_EXEC);
}

// The place that the nearest signal frame goes back to, of a thread at `at`, of whose stack these are the words from its stack
// pointer on. False: there is none.
bool as_find_interrupted(struct as_target *t, const struct as_plan *plan, const struct as_place *at,
                         const uint64_t *words, size_t count, struct as_place *saved);
// Can a called function not be run in this thread, for something that it has in its registers? `why` says so.
bool as_is_unfit(pid_t tid, char *why, size_t why_size);
