// SPDX-License-Identifier: MIT
// A snapshot of this process from inside: each arena is walked under its own lock.
#pragma once

#include "agent/arena_lock.h"
#include "arenascope.h"
#include "base/error.h"
#include "snapshot/snapshot.h"

// The recorder (recorder/enable.h) has been started: snapshots have the profile. Without it, its code is never touched.
extern bool as_agent_has_profile;
// The recorder is being started: its code is there, and a child that is forked meanwhile gives the loader's lock back.
extern bool as_agent_starts_recorder;

struct as_agent_snapshot {
    struct as_store store;
    struct as_arena_locks locks;
};

// Takes a snapshot of this process; `chunk_fd` as in as_snapshot_options. AS_NO_MALLOC where malloc is not glibc's. Free it in either case.
bool as_agent_snapshot(struct as_agent_snapshot *snapshot, int chunk_fd, struct as_error *err);
void as_agent_snapshot_free(struct as_agent_snapshot *snapshot);

// Takes a snapshot of this process and writes it as a dump: into `fd` (which stays the caller's) or, where that is -1, to `path`.
bool as_agent_dump(const char *path, int fd, bool chunks, struct as_error *err);

// Writes the dump that a signal has asked for, if there is one. For the worker thread alone.
void as_agent_dump_requested(void);

// The snapshot's totals, as the public struct. `out->size` says how much of it the caller knows.
void as_agent_summary(const struct as_agent_snapshot *snapshot, struct arenascope_summary *out);
