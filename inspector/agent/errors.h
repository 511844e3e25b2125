// SPDX-License-Identifier: MIT
// What each public function does first and last: keeps signals and cancellation away while it works, and keeps for the calling
// thread why it failed.
#pragma once

#include "agent/quiet.h"
#include "base/error.h"

struct as_call {
    struct as_error *err; // write the reason here
    struct as_quiet quiet;
    int cancel, saved_errno;
};

struct as_call as_call_begin(void);
// Returns the call's code: 0 when it succeeded.
int as_call_end(struct as_call *call, bool ok);
