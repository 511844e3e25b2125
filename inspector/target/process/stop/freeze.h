// SPDX-License-Identifier: MIT
// All threads of a live process, stopped and let go. Internal to target/.
#pragma once

#include "target/process/read/live_process.h"

// Stops every thread, those too that have been let run since: all stand still when it returns true. On failure the
// caller has to resume.
bool as_process_halt(struct as_process *p, struct as_error *err);
// Has the tracee come to a stop? Sets `stopped` and its neighbours. False: it is not ours any more, for it has ended.
bool as_tracee_read_registers(struct as_tracee *tracee);
// Lets one stopped thread run, still attached, until as_process_halt.
void as_process_let_run(struct as_tracee *tracee);
// Detaches from every thread and lets it run, or stay stopped if it was. One that cannot be let go soon stays attached and runs;
// the next resume or close tries again, and the kernel lets it go when we end.
void as_process_resume(struct as_target *t);
