// SPDX-License-Identifier: MIT
// From what people type (a pid, a core, a dump) to a view, which is all that the commands work on.
#pragma once

#include "base/error.h"
#include "snapshot/snapshot.h"
#include "cli/options.h"
#include "cli/read_watchdog.h"
#include "dump/dump.h"
#include "target/target.h"

// What makes further records of a look, before the dump is written.
struct as_look_more {
    bool (*add)(void *context, struct as_store *s, struct as_error *err);
    void *context;
};

// A TARGET argument, opened: a live target, or a dump file.
struct as_look {
    struct as_view view;
    bool from_dump;
    struct as_target *target;
    const struct as_moment_reader *reader; // reads more in the moment of the look; may be set before as_look_take
    const struct as_look_more *more;       // adds records once the target runs on; likewise
    struct as_watch watch;
    struct as_store store;
    struct as_dump_file dump;
};
// Opens without looking yet. Digits alone are a pid ("./123" is a file of that name); a file is a dump or a core by its
// first bytes. AS_NO_TARGET, AS_DENIED, AS_UNSUPPORTED, AS_BAD_INPUT, AS_USAGE.
bool as_look_open(struct as_look *look, const char *argument, struct as_error *err);
// As as_look_open, for a command that needs a running process: AS_USAGE for what is none.
bool as_look_open_process(struct as_look *look, const char *command, const char *argument, struct as_error *err);
bool as_look_is_process(const struct as_look *look, const char *command, const char *argument, struct as_error *err);

// Takes the snapshot and makes the view; a dump file's is there already. `writer`: begun, and finished here, with chunk
// records in it when `chunks`; NULL: nothing is written, and the view has no chunks.
bool as_look_take(struct as_look *look, const struct as_options *options, struct as_dump_writer *writer, bool chunks,
                  struct as_error *err);
// For commands that have nothing to show without an arena of glibc's: false and AS_NO_MALLOC where there is none.
bool as_look_needs_glibc(const struct as_look *look, const struct as_options *options, struct as_error *err);
void as_look_close(struct as_look *look);
