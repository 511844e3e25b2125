// SPDX-License-Identifier: MIT
// The memory of musl's malloc. Internal to runtimes/.
#pragma once

#include "runtimes/finder.h"

// Finds musl's malloc, by its structures.
bool as_musl_find(const struct as_finder_input *in);
