// SPDX-License-Identifier: MIT
// The checks of a dump's records against each other, after each section has been found to lie within the file.
#pragma once

#include "base/error.h"
#include "model/view.h"

// True when every index that one record holds of another is within bounds, ranges of pages, heaps and chunks do not
// overlap (so that work on a view is bounded by its file's size) and every enumerator is one that this major version has.
// AS_BAD_INPUT names the first record that lies; `name` is the file's.
bool as_dump_check(const struct as_view *v, const char *name, struct as_error *err);
