// SPDX-License-Identifier: MIT
#include "trim/pass.h"
#include "target/procfs.h"

enum { WATCH = 32 }; // steps between two readings of the clock: each costs a cache miss or two

enum as_trim_progress as_trim_corrupt(struct as_trim_pass *p, const char *what)
{
    p->fault = what;
    return AS_TRIM_CORRUPT;
}

bool as_trim_time_up(struct as_trim_pass *p, bool now)
{
    if (p->slice == UINT64_MAX || (!now && ++p->unwatched < WATCH))
        return false;
    p->unwatched = 0;
    return as_now_ns() - p->began >= p->slice;
}

bool as_trim_owns(struct as_trim_pass *p, uint64_t address, uint64_t length)
{
    const struct as_range *r = p->memory.items;
    if (p->last_range >= p->memory.count || address < r[p->last_range].start || address >= r[p->last_range].end) {
        size_t at = AS_PARTITION_POINT(0, p->memory.count, i, r[i].end <= address);
        if (at == p->memory.count || address < r[at].start)
            return false;
        p->last_range = at;
    }
    return length <= r[p->last_range].end - address;
}
