// SPDX-License-Identifier: MIT
// The commands of arenadump. Each gets its options and fills `err` when it returns false.
#pragma once

#include "base/error.h"
#include "base/output.h"
#include "cli/options.h"
#include "inject/inject.h"

bool as_cmd_dump(const struct as_options *o, struct as_error *err);
// The same, of a process with a profile. `baseline`: what was in use when that began; NULL: not known.
struct as_profile_baseline;
bool as_dump_profile(const struct as_options *o, const struct as_profile_baseline *baseline, struct as_error *err);
bool as_cmd_check(const struct as_options *o, struct as_error *err);
bool as_cmd_summary(const struct as_options *o, struct as_error *err);
bool as_cmd_png(const struct as_options *o, struct as_error *err);
bool as_cmd_chunks(const struct as_options *o, struct as_error *err);
bool as_cmd_leaks(const struct as_options *o, struct as_error *err);
bool as_cmd_types(const struct as_options *o, struct as_error *err);
bool as_cmd_owners(const struct as_options *o, struct as_error *err);
bool as_cmd_why(const struct as_options *o, struct as_error *err);
bool as_cmd_sites(const struct as_options *o, struct as_error *err);
bool as_cmd_trace(const struct as_options *o, struct as_error *err);
bool as_cmd_policy(const struct as_options *o, struct as_error *err);
bool as_cmd_profile(const struct as_options *o, struct as_error *err);
// Writes the agent's library.
bool as_cmd_agent(const struct as_options *o, struct as_error *err);
bool as_cmd_inject(const struct as_options *o, struct as_error *err);
// What the options say of how the agent is to be carried into the process.
struct as_inject_options as_options_injection(const struct as_options *o);
bool as_cmd_trim(const struct as_options *o, struct as_error *err);

// From now on SIGINT, SIGTERM and SIGHUP take `file`'s unfinished file from the disk before they end us. NULL undoes it.
// A target that is stopped at that time is set running by the kernel, as it is after any death of ours.
void as_signals_guard(const struct as_output *file);
// Removes that file now: a signal is about to end this program.
void as_signals_abandon(void);
