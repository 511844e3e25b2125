// SPDX-License-Identifier: MIT
#include "inject/inject.h"

#include <string.h>

// The kernel's limit; AS_UNKNOWN: it does not tell.
static uint64_t most_mappings(void)
{
    char text[32];
    ssize_t length = as_proc_read(-1, "/proc/sys/vm/max_map_count", text, sizeof text);
    const char *at = text;
    return length > 0 && *text >= '0' && *text <= '9' ? as_parse_decimal(&at, text + length) : AS_UNKNOWN;
}

// The kernel shows one that is in no process's list, and does not count.
static uint64_t count_mappings(const struct as_process *p)
{
    uint64_t count = 0;
    for (size_t i = 0; i < p->base.mappings.count; ++i)
        count += strcmp(as_mapping_path(&p->base, &p->base.mappings.items[i]), "[vsyscall]") != 0;
    return count;
}

bool as_inject_has_mappings(const struct as_process *p, unsigned count, struct as_error *err)
{
    uint64_t most = most_mappings();
    uint64_t used = count_mappings(p);
    uint64_t needed = (uint64_t)count + AS_SPARE_MAPPINGS;
    if (most == AS_UNKNOWN || used + needed <= most)
        return true;
    return as_fail(
        err, AS_DENIED,
        "process %d has %llu of the %llu mappings that a process may have (vm.max_map_count), and %llu must be "
        "free: %u for what is loaded, and %d so that its own mmap does not fail meanwhile. The process is as before. "
        "Raise the limit (sysctl vm.max_map_count=%llu), or use --force",
        p->base.pid, (unsigned long long)used, (unsigned long long)most, (unsigned long long)needed, count,
        AS_SPARE_MAPPINGS, (unsigned long long)(most > UINT64_MAX / 2 ? most : 2 * most));
}
