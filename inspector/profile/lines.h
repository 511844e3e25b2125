// SPDX-License-Identifier: MIT
// The lines of interpreted code in a recorder's tables.
#pragma once

#include "model/store.h"
#include "profile/tables.h"
#include "target/target.h"

// Adds the line that a frame (AS_PROFILE_PYTHON, AS_PROFILE_RUBY) names to the store's profile_lines, and returns its index + 1; 0:
// AS_NO_MEMORY.
uint32_t as_profile_read_line(struct as_target *t, const struct as_profile_head *head, uint64_t frame,
                              struct as_store *s, struct as_error *err);
