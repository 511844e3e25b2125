// SPDX-License-Identifier: MIT
// The heaps of V8 (Node.js, Chromium, Electron, Deno) in a target, found from outside by structure, with no symbols (v8.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Searches for the pages of V8's heaps in a target that stands still and whose residency is known. If there are, a record of
// them is added to `store`, with their regions. If the program's or a library's name says that it has V8, and no page fits, a
// record with state AS_REGIONS_UNPROVEN, and a warning. False (AS_NO_MEMORY): our memory ran out.
bool as_v8_find(struct as_target *t, struct as_store *store, struct as_error *err);
