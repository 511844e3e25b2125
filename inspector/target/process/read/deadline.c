// SPDX-License-Identifier: MIT
#include "target/process/read/live_process.h"

uint64_t as_process_due(const struct as_process *p)
{
    uint64_t most = p->base.stop.limit_ns;
    return most == 0 ? UINT64_MAX : p->stop_began + (most > p->stood_ns ? most - p->stood_ns : 0);
}

bool as_process_deadline_exceeded(struct as_process *p, struct as_error *err)
{
    p->base.stop.deadline_exceeded = true;
    return as_fail(
        err, AS_DENIED,
        "process %d was resumed after %.1f ms, before all of it was read: allow a longer pause (--max-pause), or "
        "use a mode with a shorter one (--mode clone or live)",
        p->base.pid, (double)p->base.stop.limit_ns / 1e6);
}
