// SPDX-License-Identifier: MIT
// The fastbins (to 2.42). Internal to trim/.
#pragma once

#include "trim/pass.h"

// Merges what is in fastbins with what is free around it. From as_trim_pass.cursor on, as all of these: {0} at the beginning.
enum as_trim_progress as_trim_fastbins_trim(struct as_trim_pass *p);
// For a forecast, one after the other: lists the members in as_trim_pass.fast, as long as there is room; sorts them, without the
// lock; counts what merging them would make whole.
enum as_trim_progress as_trim_fastbins_list(struct as_trim_pass *p);
bool as_trim_fastbins_sort(struct as_trim_pass *p, struct as_error *err);
enum as_trim_progress as_trim_fastbins_forecast(struct as_trim_pass *p);
