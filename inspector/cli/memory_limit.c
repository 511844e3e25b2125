// SPDX-License-Identifier: MIT
#include "cli/memory_limit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char NAME[] = "VmData:";

// What counts for the limit today, in bytes (proc(5): VmData).
static bool taken(uint64_t *bytes)
{
    FILE *status = fopen("/proc/self/status", "re");
    char line[256];
    *bytes = 0;
    while (status && *bytes == 0 && fgets(line, sizeof line, status))
        if (strncmp(line, NAME, sizeof NAME - 1) == 0)
            *bytes = strtoull(line + sizeof NAME - 1, NULL, 10) << 10; // "VmData:     1234 kB"
    if (status)
        fclose(status);
    return *bytes != 0;
}

bool as_memory_limit(uint64_t bytes, struct as_error *err)
{
    uint64_t before;
    struct rlimit limit;
    if (!taken(&before) || getrlimit(RLIMIT_DATA, &limit) != 0)
        return as_fail(err, AS_UNSUPPORTED, "--max-memory: cannot tell how much memory arenadump has: %s",
                       strerror(errno));
    limit.rlim_cur = before + bytes < limit.rlim_max ? before + bytes : limit.rlim_max;
    return setrlimit(RLIMIT_DATA, &limit) == 0 ||
           as_fail(err, AS_UNSUPPORTED, "--max-memory: the kernel sets no limit: %s", strerror(errno));
}
