// SPDX-License-Identifier: MIT
// A trim of this process, and its forecast, with the options and results of the public API.
#pragma once

#include "arenascope.h"
#include "trim/trim.h"

// Trims this process. `options` NULL: as malloc_trim(0). `arenas` may be NULL; else the caller frees it (as_trim_free), also after
// a failure.
bool as_agent_trim(const struct arenascope_trim_options *options, struct arenascope_trim_result *result,
                   struct as_trim_outcome *arenas, struct as_error *err);
// What a trim would return, arena by arena. The caller frees `arenas`, as above.
bool as_agent_forecast(const struct arenascope_trim_options *options, struct as_trim_outcome *arenas,
                       struct as_error *err);
