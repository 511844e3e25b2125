// SPDX-License-Identifier: MIT
// The recorder's code for an agent that was injected, which has room for it only. From outside, by whoever may trace the process: the
// control socket alone brings no code into it.
#pragma once

#include "inject/client.h"

// Begins a profile, which ends with the connection; carries the code first where it is missing. `rates` as $ARENASCOPE_PROFILE has
// them. `library`: of the agent; NULL: as_inject_library finds it. `entries`: without hooks in slots; those at entries are the caller's to
// write (inject/entry/entry_guard.h). *page: for such hooks, if the process has one; 0. AS_USAGE: the recorder refuses, and why.
// AS_UNSUPPORTED: the agent cannot record, or is another build than the library.
bool as_load_recorder_begin(const struct as_client *client, struct as_target *t, const char *library, const char *rates,
                            bool entries, uint64_t *page, struct as_error *err);
// Ends any profile of the process's. *page: as above.
bool as_load_recorder_end(const struct as_client *client, uint64_t *page, struct as_error *err);
