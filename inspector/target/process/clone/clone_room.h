// SPDX-License-Identifier: MIT
// Internal to target/process/clone/.
#pragma once

#include "target/process/read/live_process.h"
#include "target/process/read/room.h"

// Whether the limits of memory leave room for all that a clone could get copied, by the mappings as they were last read, with their
// counts. False: AS_UNSUPPORTED, with the numbers; also where the room is not known.
bool as_process_has_room(struct as_process *p, struct as_room *room, struct as_error *err);
