// SPDX-License-Identifier: MIT
// Writes the jumps at the entries of libc's functions, and takes them out, while all threads of the target stand still. Internal to
// inject/.
#pragma once

#include "inject/entry/entry_plan.h"

// Stops the target and writes the jumps, and lets it run again. A thread that is in the bytes that are overwritten, or would return there
// from a signal handler, is let run briefly first. False: nothing was changed. AS_UNSUPPORTED: an entry cannot be patched;
// AS_DENIED: the target could not be stopped at such a time within `patience_ns`, or its memory cannot be written.
bool as_entries_write(struct as_process *p, uint64_t page, uint64_t patience_ns, struct as_error *err);

// Stops the target and writes its own code to the entries that have our jump; does nothing where none has. False: as above, or
// AS_UNSUPPORTED where an entry has neither: that one is left alone.
bool as_entries_take_out(struct as_process *p, uint64_t page, uint64_t patience_ns, struct as_error *err);
