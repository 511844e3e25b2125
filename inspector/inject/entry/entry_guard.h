// SPDX-License-Identifier: MIT
// Hooks at the entries of libc's functions (recorder/entry_page.h), for as long as a profile is made. A process of ours puts them in, waits
// for the inspector's end, however that comes, and takes them out. x86-64 alone.
#pragma once

#include "base/error.h"
#include "target/target.h"

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
