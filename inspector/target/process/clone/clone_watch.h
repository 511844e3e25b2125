// SPDX-License-Identifier: MIT
// Internal to target/process/clone/.
#pragma once

#include "target/process/clone/clone.h"
#include "target/process/read/room.h"

// Waits until the other end of the socket is closed. If memory gets short meanwhile, or the clone is killed, it takes the clone away from
// the inspector, whose reads these are, kills it while the target stands still, and returns true; p->base.stop.duration_ns has that time,
// too.
bool as_clone_watch(struct as_process *p, struct as_reads *reads, struct as_room *room, const struct as_made *made,
                    int socket);
