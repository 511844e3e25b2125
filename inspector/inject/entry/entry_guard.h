// SPDX-License-Identifier: MIT
// Hooks at the entries of libc's functions (recorder/entry_page.h), for as long as a profile is made. A process of ours puts them in, waits
// for the inspector's end, however that comes, and takes them out. x86-64 alone.
#pragma once

#include "base/error.h"
#include "recorder/entry_page.h"
#include "target/process/read/live_process.h"
#include "target/target.h"

// Writes the jumps at the entries of libc's functions, and takes them out, while all threads of the target stand still. Internal to
// inject/.

// What is written to have libc's functions jump to the recorder's hooks at their entry: the jumps, and the code near libc that belongs to
// them. Reads the target, and writes nothing. Internal to inject/, and to its tests.
struct as_entry_plan {
    uint64_t address;                              // of the page
    struct as_entry_page page;                     // as it is to be; entries with length 0 are left alone
    uint8_t code[AS_ENTRY_COUNT * AS_ENTRY_PLACE]; // which lies in the page at AS_ENTRY_CODE
};

// Reads the page as it is, and checks it. AS_UNSUPPORTED: it is damaged, or of another build.
bool as_entry_page_read(struct as_target *t, uint64_t address, struct as_entry_page *page, struct as_error *err);

// Has this function our jump? *foreign: neither that nor its own code.
bool as_entry_is_patched(struct as_target *t, const struct as_entry *e, bool *foreign);

// Makes the plan, of functions none of which has a jump. AS_UNSUPPORTED, and why: one of them cannot be moved.
bool as_entry_plan_make(struct as_entry_plan *plan, struct as_target *t, uint64_t address, struct as_error *err);

// The name of the function, for texts.
const char *as_entry_name(size_t index);

// Stops the target and writes the jumps, and lets it run again. A thread that is in the bytes that are overwritten, or would return there
// from a signal handler, is let run briefly first. False: nothing was changed. AS_UNSUPPORTED: an entry cannot be patched;
// AS_DENIED: the target could not be stopped at such a time within `patience_ns`, or its memory cannot be written.
bool as_entries_write(struct as_process *p, uint64_t page, uint64_t patience_ns, struct as_error *err);

// Stops the target and writes its own code to the entries that have our jump; does nothing where none has. False: as above, or
// AS_UNSUPPORTED where an entry has neither: that one is left alone.
bool as_entries_take_out(struct as_process *p, uint64_t page, uint64_t patience_ns, struct as_error *err);

struct as_entry_guard {
    pid_t pid; // 0: there is none
    int socket;
};

// Puts the hooks in. `page`: as the agent has said it. False, and nothing was changed: AS_UNSUPPORTED (an entry cannot be patched),
// AS_DENIED (not now, or not to us), AS_TARGET_GONE. The target runs when it returns.
bool as_entry_guard_begin(struct as_entry_guard *guard, struct as_target *t, uint64_t page, struct as_error *err);

// Has them taken out, and waits for that; does nothing where as_entry_guard_begin has failed. False: they are still there, and why;
// calls pass through them.
bool as_entry_guard_end(struct as_entry_guard *guard, struct as_target *t, uint64_t page, struct as_error *err);

// Takes hooks out whose guard was killed, or is at it; does nothing where there are none. False: as above.
bool as_entries_mend(struct as_target *t, uint64_t page, struct as_error *err);
