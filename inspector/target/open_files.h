// SPDX-License-Identifier: MIT
// Files in memory that a process has open and does not map: their pages are in no Rss.
#pragma once

#include "base/vec.h"

#include <stdint.h>

// A file on tmpfs that has no name (a memfd, a removed file) or lies in /dev/shm.
struct as_open_file {
    uint64_t dev, inode;
    uint64_t bytes; // that the kernel has allocated for it, in memory or swapped out
    uint32_t descriptors;
    uint32_t name; // in as_target.strings
};

struct as_open_files {
    AS_VEC(struct as_open_file) files; // in no order
    uint64_t descriptors;              // that were searched; AS_UNKNOWN: they could not be listed
    uint64_t left;                     // that were not, because of the limit
};
enum { AS_OPEN_FILES_LIMIT = 16384 }; // descriptors
