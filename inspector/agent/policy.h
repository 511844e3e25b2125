// SPDX-License-Identifier: MIT
// The automatic trim: the policy says when, the worker thread does it.
#pragma once

#include "arenascope.h"
#include "base/error.h"
#include "trim/trim.h"

#include <stdbool.h>
#include <stdint.h>

// What the worker thread remembers between two checks of the policy.
struct as_policy {
    bool on;
    struct arenascope_policy now; // as it was when `on` became true
    uint64_t next_check, next_tick;
    uint64_t last_tick, idle_for, own_cpu, all_cpu; // for idleness
    uint64_t stalled, high;                         // for pressure: the kernel's counts so far
    uint64_t last_trim, after_trim, last_returned;  // when; resident bytes it was to leave; what it gave back
    uint64_t patience; // the distance is multiplied by this, because pages were faulted back
    bool pressed, rested;
};

void as_policy_init(struct as_policy *p);
// Checks the conditions that are due, and trims where they hold. Returns after how many milliseconds to call again; -1: never.
int as_policy_run(struct as_policy *p);

// Replaces the policy (NULL: off). The caller starts the worker thread, or wakes it.
bool as_policy_set(const struct arenascope_policy *policy, struct as_error *err);
// Returns the resident memory of the process, in bytes; may lag by some pages for each processor. 0: unknown.
uint64_t as_policy_resident(void);
// Returns whether there is a policy now.
bool as_policy_statistics(struct arenascope_policy_stats *out);

// Reads $ARENASCOPE_TRIM: "every=60s,min=64M,percent=20,pressure=10ms,idle=30s,distance=1m,backoff=50,deep,max-hold=5ms", any
// of these; "1": the defaults that docs/arenascope.7 names.
bool as_policy_parse(const char *text, struct arenascope_policy *out, struct as_error *err);

// A trim of this process, and its forecast, with the options and results of the public API.

// Trims this process. `options` NULL: as malloc_trim(0). `arenas` may be NULL; else the caller frees it (as_trim_free), also after
// a failure.
bool as_agent_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result,
                   struct as_trim_outcome *arenas, struct as_error *err);
// What a trim would return, arena by arena. The caller frees `arenas`, as above.
bool as_agent_forecast(const struct arenascope_trim_options *options, struct as_trim_outcome *arenas,
                       struct as_error *err);
