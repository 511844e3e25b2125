// SPDX-License-Identifier: MIT
// The heap of a Go program in a target, found from outside by structure, with no symbols (go.c).
#pragma once

#include "runtimes/finder.h"

// Finds the arenas of Go's heap, if the program is one of Go's; else there is no record. A record with state AS_REGIONS_UNPROVEN, and a
// warning: they were not found.
bool as_go_find(const struct as_finder_input *in);
