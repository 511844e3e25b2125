// SPDX-License-Identifier: MIT
// The memory cgroups above a process, as far as they can be seen from here. Internal to target/process/.
#pragma once

#include "target/procfs.h"

#include <limits.h>

enum { AS_CGROUP_LEVELS = 48, AS_CGROUP_WHY = 512 };

struct as_cgroups {
    bool v2;                         // the unified hierarchy
    bool top;                        // the last level is the machine's own root, and none is above it
    int dirs[AS_CGROUP_LEVELS];      // each cgroup's directory, the process's own first
    uint16_t ends[AS_CGROUP_LEVELS]; // so many bytes of `path` are its name; 0: the root of what is mounted
    size_t count;                    // 0: no memory cgroup limits the process
    char path[PATH_MAX];             // the process's own, below the mounted root
    char why[AS_CGROUP_WHY];         // why they are not known; "": they are
};

// Finds the memory cgroups of the process whose directory in /proc is `process`, in the hierarchies that are mounted here.
// `root` stands before the names of all other files ("": the machine's own; tests have another). False: they are not known, and
// cgroups->why says why. Close it in either case.
bool as_cgroups_open(struct as_cgroups *cgroups, int process, const char *root);
void as_cgroups_close(struct as_cgroups *cgroups);
