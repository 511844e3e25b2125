// SPDX-License-Identifier: MIT
// Dumps that the agent writes by itself: at a peak, after growth, at an amount of Rss, after so many bytes allocated.
// The worker thread does it. The code lies with the recorder's (cold.ld): an injected library comes without it.
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stdint.h>

enum { AS_DUMP_CONDITIONS = 8 };

enum as_dump_when { AS_DUMP_PEAK, AS_DUMP_GROWTH, AS_DUMP_RSS, AS_DUMP_ALLOCATED };

// What the application holds; and Rss, where that is unknown.
enum as_held { AS_HELD_IN_USE, AS_HELD_RESIDENT, AS_HELD_MEASURES };

struct as_dump_condition {
    enum as_dump_when when;
    bool met;                         // a limit, which counts anew when Rss has been far below it
    uint64_t amount;                  // bytes
    uint64_t marks[AS_HELD_MEASURES]; // at the last dump for it; AS_UNKNOWN
    uint64_t allocated;               // until the last dump for it, as as_recorder_allocated counts
};

// What somebody wants.
struct as_dump_wish {
    struct as_dump_condition conditions[AS_DUMP_CONDITIONS];
    uint32_t count;
    uint32_t flags;      // ARENASCOPE_CHUNKS
    uint64_t every;      // nanoseconds between two snapshots
    uint64_t keep, most; // how many dumps, and how many bytes of all of them
    char directory[PATH_MAX];
};

// dump_at_parse.c: reads "peak,+64M,rss=1G,allocated=1G,every=10s,keep=8,dumps-size=1G", any of these. AS_USAGE.
bool as_dump_words_read(const char *text, struct as_dump_wish *wish, struct as_error *err);

// dump_folder.c: keeps the dump that `fd` has in the wish's directory, for these reasons ("peak+rss"), and lets older ones go. `name`: of
// the new one. AS_IO: it is not kept; those before it are.
bool as_dump_folder_keep(const struct as_dump_wish *wish, int fd, const char *reasons, char name[NAME_MAX + 1],
                         struct as_error *err);

// Replaces what is wanted (`when` NULL: no dumps), and starts the worker thread, or wakes it. `directory` NULL: "arenascope.dumps".
// AS_UNSUPPORTED: a condition needs a profile, and none is being made.
bool as_dump_at_start(const char *when, const char *directory, unsigned flags, struct as_error *err);
// Snapshots where it is time, and keeps a dump where a condition is met. After how many milliseconds to call again; -1: never.
int as_dump_at_run(void);
