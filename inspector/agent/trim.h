// SPDX-License-Identifier: MIT
// Giving memory back, in the words of the public API.
#pragma once

#include "arenascope.h"
#include "trim/trim.h"

// Trims this process; `arenas` may be NULL: the caller frees it (as_trim_free) in either case. `options` NULL: plain.
bool as_agent_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result,
                   struct as_trim_outcome *arenas, struct as_error *err);
// What a trim would return, arena by arena.
bool as_agent_forecast(const struct arenascope_trim_options *options, struct as_trim_outcome *arenas,
                       struct as_error *err);
