// SPDX-License-Identifier: MIT
// The heaps of V8 (Node.js, Chromium, Electron, Deno) in a target, found from outside by structure, with no symbols (v8.c).
#pragma once

#include "runtimes/finder.h"

// Finds the pages of V8's heaps, and of cppgc's where there are such. If the program's or a library's name says that it has V8, and no
// page fits, a record with state AS_REGIONS_UNPROVEN, and a warning.
bool as_v8_find(const struct as_finder_input *in);
