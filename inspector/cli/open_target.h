// SPDX-License-Identifier: MIT
// From what people type (a pid, a core, a dump) to a view, which is all that the commands work on.
#pragma once

#include "base/error.h"
#include "cli/options.h"
#include "dump/dump.h"
#include "snapshot/snapshot.h"
#include "target/target.h"

#include <pthread.h>

// A thread that ends arenadump, with AS_DENIED and a word, when a read of a live process's memory never returns.
struct as_read_watchdog {
    pthread_t thread;
    bool runs;
    struct as_target *target;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending; // under the lock
};

// `t` is a live process, and stays open until as_watch_stop, as `w` stays where it is. Without a thread, nobody watches.
void as_watch_start(struct as_read_watchdog *w, struct as_target *t);
// NULL-safe on a watch that was never started (all zero).
void as_watch_stop(struct as_read_watchdog *w);

// What makes further records of a snapshot, before the dump is written.
struct as_snapshot_more {
    bool (*add)(void *context, struct as_store *s, struct as_error *err);
    void *context;
};

// A TARGET argument, opened: a live target, or a dump file.
struct as_snapshot {
    struct as_view view;
    bool from_dump;
    struct as_target *target;
    const struct as_stopped_reader
        *reader; // reads more at the instant of the snapshot; may be set before as_snapshot_take
    const struct as_profile_baseline *baseline; // what was in use when a profile began; NULL: not known; likewise
    as_boundary_vec noted;                      // which chunks that profile has noted, once the snapshot is taken
    const struct as_snapshot_more *more;        // adds records once the target runs on; likewise
    struct as_read_watchdog watch;
    struct as_store store;
    struct as_dump_file dump;
};
// Opens without inspecting yet. Digits alone are a pid ("./123" is a file of that name); a file is a dump or a core by its
// first bytes. AS_NO_TARGET, AS_DENIED, AS_UNSUPPORTED, AS_BAD_INPUT, AS_USAGE.
bool as_snapshot_open(struct as_snapshot *snapshot, const char *argument, struct as_error *err);
// As as_snapshot_open, for a command that needs a running process: AS_USAGE for what is none.
bool as_snapshot_open_process(struct as_snapshot *snapshot, const char *command, const char *argument,
                              struct as_error *err);
bool as_snapshot_is_process(const struct as_snapshot *snapshot, const char *command, const char *argument,
                            struct as_error *err);

// Takes the snapshot and makes the view; a dump file's is there already. `writer`: begun, and finished here, with chunk
// records in it when `chunks`; NULL: nothing is written, and the view has no chunks.
bool as_snapshot_take(struct as_snapshot *snapshot, const struct as_options *options, struct as_dump_writer *writer,
                      bool chunks, struct as_error *err);
// For commands that have nothing to show without an arena of glibc's: false and AS_NO_MALLOC where there is none.
bool as_snapshot_needs_glibc(const struct as_snapshot *snapshot, const struct as_options *options,
                             struct as_error *err);
void as_snapshot_close(struct as_snapshot *snapshot);
