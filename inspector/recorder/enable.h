// SPDX-License-Identifier: MIT
// The recorder for others: on and off.
#pragma once

#include "base/error.h"

#include <stdint.h>

// Begins a profile. `rates` as $ARENASCOPE_PROFILE has them (docs/profile.md). `running`: threads of the process run
// meanwhile, and may be loading objects; and a child of fork() does not go on with it, as nobody would end it there.
// The caller keeps others from calling this meanwhile. `record`: a trace besides, for which this starts what writes the
// buffers; NULL: none. AS_USAGE: `rates` are none. AS_DENIED: one is being made, or a thread is still in the last one.
// AS_UNSUPPORTED: malloc is not found, or no slot of it. AS_NO_MEMORY.
typedef bool as_recorder_begin(struct as_error *err);
bool as_recorder_start(const char *rates, bool running, as_recorder_begin *record, struct as_error *err);
// Likewise, with `running`, but no slot of malloc's is written: the profile begins when jumps to the recorder's hooks have been written to
// the entries of libc's functions, from outside. *page: of struct as_entry_page (entry_page.h).
bool as_recorder_start_at_entries(const char *rates, uint64_t *page, struct as_error *err);
// Ends it, and gives the memory of its tables back. False: a thread is still at work in them, and the hooks are out already.
bool as_recorder_stop(void);
// Whether every malloc and free is being recorded. (The writer's thread relies on the tables until the process ends.)
bool as_recorder_writes_trace(void);
// What this process has allocated while it had a profile, estimated from samples: it only grows. A child of fork() begins at 0. False: it
// has no profile now, or one that takes no samples.
#ifdef AS_NO_RECORDER
static inline bool as_recorder_allocated(uint64_t *bytes)
{
    *bytes = 0;
    return false;
}
#else
bool as_recorder_allocated(uint64_t *bytes);
#endif
// In a child of fork().
void as_recorder_in_child(void);
// The part of it that a child needs which is forked while a recorder starts.
void as_recorder_in_child_of_start(void);
