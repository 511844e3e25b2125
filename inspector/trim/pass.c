// SPDX-License-Identifier: MIT
#include "trim/pass.h"
#include "target/procfs.h"

enum { WATCH = 32 }; // steps between two snapshots of the clock: each costs a cache miss or two

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
        size_t low = 0;
        for (size_t count = p->memory.count; count > 0;) {
            size_t half = count / 2;
            if (r[low + half].end <= address) {
                low += half + 1;
                count -= half + 1;
            } else {
                count = half;
            }
        }
        if (low == p->memory.count || address < r[low].start)
            return false;
        p->last_range = low;
    }
    return length <= r[p->last_range].end - address;
}
