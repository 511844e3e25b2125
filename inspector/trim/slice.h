// SPDX-License-Identifier: MIT
// One hold of an arena's lock. Internal to trim/.
#pragma once

#include "trim/pass.h"

// Takes the lock and reads the arena. False: the arena stayed locked (fault is NULL), or what was read makes no sense.
bool as_trim_slice_begin(struct as_trim_pass *p, struct as_error *err);
// Returns the pages of the batch, then releases the lock, and sleeps for a while where other threads wait for it.
void as_trim_slice_end(struct as_trim_pass *p);
