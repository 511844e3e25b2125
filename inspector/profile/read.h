// SPDX-License-Identifier: MIT
// The recorder's tables read from a target's memory, and joined with the chunks in use.
#pragma once

#include "profile/growth.h"
#include "target/target.h"

// Adds a runtime's record, and regions, of the memory that a recorder has in the target: tables, and buffers, each found by its head, of a
// profile that has ended, too. What begins as tables and does not hold makes the record one without regions. False: AS_NO_MEMORY.
bool as_profile_find_regions(struct as_target *t, struct as_store *s, struct as_error *err);

// Adds the profile's records to the store, if the target has one. `boundaries` as in as_stopped_reader, with
// AS_GAP_FREE. `baseline`: NULL where it is not known. `noted`: gets what as_profile_note_chunks says where a
// baseline is known; NULL: nobody asks. Nothing in the tables is trusted: what does not hold is left out, and work and memory are bounded by the
// tables' mapping. False: AS_NO_MEMORY.
bool as_profile_read(struct as_target *t, const as_boundary_vec *boundaries, const struct as_profile_baseline *baseline,
                     as_boundary_vec *noted, struct as_store *s, struct as_error *err);
