// SPDX-License-Identifier: MIT
// Which seccomp filters of a process stand in the way of the agent.
#pragma once

#include "base/error.h"
#include "target/process/read/live_process.h"

// The agent is loaded, and its thread started, by a thread that has no filter: is there one? `everywhere`: what is asked for runs in
// all threads, as the recorder does, and no thread may have a filter. False: AS_UNSUPPORTED, or AS_TARGET_GONE.
bool as_inject_passes_filters(struct as_process *p, bool everywhere, struct as_error *err);
