// SPDX-License-Identifier: MIT
// The heap of cppgc (also called Oilpan), which collects V8's and Chromium's own objects of C++, found from outside by structure, with no
// symbols (cppgc.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Searches for the pages of cppgc's heaps in a target that stands still and whose residency is known. If there are, a record of
// them is added to `store`, with their regions. False (AS_NO_MEMORY): our memory ran out.
bool as_cppgc_find(struct as_target *t, struct as_store *store, struct as_error *err);
