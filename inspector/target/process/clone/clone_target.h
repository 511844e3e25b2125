// SPDX-License-Identifier: MIT
// A target that another process of ours holds, or a clone of it that is read in its place. Internal to target/process/.
#pragma once

#include "target/process/read/live_process.h"

bool as_process_fork(struct as_target *t, const struct as_critical *critical, struct as_error *err);
bool as_process_stop_clean(struct as_target *t, const struct as_critical *critical, struct as_error *err);
// Lets go of a target that is stopped, by whom ever: by a supervisor, which also does away with the clone, or by us
// (as_process_resume). What is read from now on is the target's own again.
void as_process_let_go(struct as_target *t);
