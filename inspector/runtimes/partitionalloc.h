// SPDX-License-Identifier: MIT
// The memory of PartitionAlloc, Chromium's malloc. Internal to runtimes/.
#pragma once

#include "runtimes/finder.h"

// Finds PartitionAlloc's pools, by its structures.
bool as_partitionalloc_find(const struct as_finder_input *in);
