// SPDX-License-Identifier: MIT
// What each public function does first and last: keeps signals and cancellation away while it works, and keeps for the calling
// thread why it failed.
#pragma once

#include "agent/signal_mask.h"
#include "base/error.h"

struct as_api_call {
    struct as_error *err; // write the reason here
    struct as_signal_mask mask;
    int cancel, saved_errno;
};

struct as_api_call as_api_begin(void);
// Returns the call's code: 0 when it succeeded.
int as_api_end(struct as_api_call *call, bool ok);
