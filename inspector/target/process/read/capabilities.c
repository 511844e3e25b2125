// SPDX-License-Identifier: MIT
#include "target/process/read/capabilities.h"
#include "target/procfs.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdint.h>

static bool has(uint64_t mask, unsigned capability)
{
    return mask >> capability & 1;
}

const char *as_capabilities_missing(void)
{
    uint64_t mask = as_proc_status_mask(AT_FDCWD, "/proc/self/status", "CapEff:");
    if (mask == AS_PROC_NONE)
        mask = 0;
    // /proc/PID/pagemap is 0400: to trace a process does not give the right to open what only its owner may.
    bool opens = has(mask, CAP_DAC_READ_SEARCH) || has(mask, CAP_DAC_OVERRIDE);
    if (has(mask, CAP_SYS_PTRACE))
        return opens ? "" : "CAP_DAC_READ_SEARCH";
    return opens ? "CAP_SYS_PTRACE" : "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";
}
