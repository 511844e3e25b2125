// SPDX-License-Identifier: MIT
// What is written to have libc's functions jump to the recorder's hooks at their entry: the jumps, and the code near libc that belongs to
// them. Reads the target, and writes nothing. Internal to inject/, and to its tests.
#pragma once

#include "recorder/entry_page.h"
#include "target/process/read/live_process.h"

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
