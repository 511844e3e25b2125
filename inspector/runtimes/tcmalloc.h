// SPDX-License-Identifier: MIT
// The memory of gperftools' tcmalloc. Internal to runtimes/.
#pragma once

#include "runtimes/finder.h"

// Finds the first tcmalloc, by its structures.
bool as_tcmalloc_find(const struct as_finder_input *in);
