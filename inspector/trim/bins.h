// SPDX-License-Identifier: MIT
// The bins. Internal to trim/.
#pragma once

#include "trim/pass.h"

// Goes on through the bins, from as_trim_pass.cursor on: {0} at the beginning of a pass.
enum as_trim_progress as_trim_bins(struct as_trim_pass *p);
