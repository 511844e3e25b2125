// SPDX-License-Identifier: MIT
// A snapshot of this process from inside: each arena is walked under its own lock.
#pragma once

#include "arenascope.h"
#include "base/error.h"
#include "snapshot/snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Locks each arena while a snapshot walks it, so that malloc does not change the arena meanwhile.
struct as_arena_locks {
    uint64_t arena;      // address of the arena that is locked now; 0: none
    uint64_t since;      // when it was locked; CLOCK_MONOTONIC, nanoseconds
    uint64_t longest_ns; // for which an arena was locked
    uint64_t missed;     // arenas that could not be locked before the deadline
    uint64_t fresh;      // arenas that have been read again under their locks
};

// For as_snapshot_options.hold. `locks` is all zero, and must outlive the snapshot.
struct as_arena_hold as_arena_locks_hooks(struct as_arena_locks *locks);

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

// The names of dumps: a pattern, which is filled in for each dump.

// Fills in a pattern: %p the pid, %t the seconds since the epoch, %n `count`, %e the program's name, %% a percent sign;
// anything else stays as it is. False when it does not fit.
bool as_pattern_expand(const char *pattern, uint32_t count, char *out, size_t size);
// Makes a pattern absolute, by the current directory. False when it does not fit.
bool as_pattern_resolve(const char *pattern, char *out, size_t size);
