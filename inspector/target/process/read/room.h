// SPDX-License-Identifier: MIT
// How much more memory a process may be charged for before a limit is met: one of a memory cgroup above it, or the machine's. A page
// that it writes while a clone of it exists is copied, and the copy is charged to it: past the limit the kernel kills.
// Internal to target/process/.
#pragma once

#include "target/process/read/cgroups.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What must be left beside all that is expected to be taken, and what must be left at any time: for what others take meanwhile.
#define AS_ROOM_MARGIN UINT64_C(33554432)
#define AS_ROOM_LEAST UINT64_C(16777216)

enum { AS_ROOM_LIMITS = 2 * AS_CGROUP_LEVELS, AS_ROOM_TEXT = 512 };

// One limit, and what is used of it.
struct as_room_gauge {
    int limit, usage; // files
    uint16_t level;   // of cgroups
    uint8_t kind;
};

struct as_room {
    struct as_cgroups cgroups;
    struct as_room_gauge gauges[AS_ROOM_LIMITS];
    size_t count;
    int meminfo;
    bool strict;            // memory is promised only as far as there is some (vm.overcommit_memory=2)
    char why[AS_ROOM_TEXT]; // why it is not known; "": it is
};

// What is left until the nearest limit is met.
struct as_room_left {
    uint64_t bytes;
    uint64_t plain;           // likewise, of the nearest without the page cache
    uint64_t promised;        // likewise, of what the kernel may promise all processes together; UINT64_MAX: no limit
    char where[AS_ROOM_TEXT]; // that limit, with its numbers
};

// Opens all that tells of the room of the process whose directory in /proc is `process`. `root`: as for as_cgroups_open. False: the room
// is not known, and room->why says why. Close it in either case.
bool as_room_open(struct as_room *room, int process, const char *root);
// Reads it anew. Memory of the page cache that can be taken back counts as left, but is read, which costs more, only where there are
// less than `enough` bytes without it. False: it cannot be read any more (room->why).
bool as_room_read(struct as_room *room, uint64_t enough, struct as_room_left *left);
void as_room_close(struct as_room *room);
