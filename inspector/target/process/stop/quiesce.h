// SPDX-License-Identifier: MIT
// A live process, stopped when none of its threads is in the middle of something. Internal to target/, and to inject/.
#pragma once

#include "target/process/read/live_process.h"

// Stops every thread at a time when none is in the middle of `critical` (NULL: any time will do); t->stop.outcome says
// whether there was one. Reads neither mappings nor the list of threads. On failure all run again.
bool as_process_catch(struct as_process *p, const struct as_critical *critical, struct as_error *err);
// As as_process_catch, after a time that did not serve: how long the target stood still counts together.
bool as_process_catch_again(struct as_process *p, const struct as_critical *critical, struct as_error *err);

// Does a call instruction end at `address`, so that it may be a return address? Stacks hold old words, too, and data.
bool as_follows_call(struct as_target *t, uint64_t address);

// Stops every thread, then reads mappings, threads and registers anew. On failure all run again.
bool as_process_stop(struct as_target *t, struct as_error *err);
