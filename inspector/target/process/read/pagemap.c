// SPDX-License-Identifier: MIT
#include "target/process/read/pagemap.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SCAN_IOCTL _IOWR('f', 16, struct as_scan_arg)

int as_process_scan_pagemap(const struct as_process *p, struct as_scan_arg *arg)
{
    if (!as_process_read_begin(p))
        return errno = ESRCH, -1;
    int count = ioctl(p->pagemap_fd, SCAN_IOCTL, arg);
    as_process_read_end(p);
    return count;
}

uint64_t as_process_scan_first(struct as_process *p, uint64_t start, uint64_t end)
{
    struct as_scan_region first;
    for (uint64_t at = start; at < end && !p->no_scan;) {
        uint64_t guard = p->no_guard ? 0 : AS_SCAN_GUARD; // a marker counts as swapped, and is no memory
        struct as_scan_arg arg = {.size = sizeof arg,
                                  .start = at,
                                  .end = end,
                                  .vec = (uintptr_t)&first,
                                  .vec_len = 1,
                                  .max_pages = 1,
                                  .category_inverted = guard,
                                  .category_mask = guard,
                                  .category_anyof_mask = AS_SCAN_PRESENT | AS_SCAN_SWAPPED,
                                  .return_mask = AS_SCAN_PRESENT};
        int count = as_process_scan_pagemap(p, &arg);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0 && errno == EINVAL && guard != 0) {
            p->no_guard = true;
            continue;
        }
        if (count < 0) {
            p->no_scan |= errno == ENOTTY;
            return AS_UNKNOWN;
        }
        if (count > 0)
            return first.start >= at && first.start < end ? first.start : at;
        if (arg.walk_end <= at)
            return at;
        at = arg.walk_end;
    }
    return p->no_scan ? AS_UNKNOWN : end;
}

size_t as_process_read_entries(const struct as_process *p, uint64_t address, uint64_t end, uint64_t *entries)
{
    uint64_t pages = (end - address) / p->base.page_size;
    size_t want = (pages < AS_ENTRIES ? (size_t)pages : AS_ENTRIES) * sizeof *entries;
    ssize_t got;
    if (!as_process_read_begin(p))
        return errno = ESRCH, 0;
    do
        got = pread(p->pagemap_fd, entries, want, (off_t)(address / p->base.page_size * sizeof *entries));
    while (got < 0 && errno == EINTR);
    as_process_read_end(p);
    if (got == 0)
        errno = ESRCH;
    return got < 0 ? 0 : (size_t)got / sizeof *entries;
}
