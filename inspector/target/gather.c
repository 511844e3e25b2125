// SPDX-License-Identifier: MIT
// Reads at many places. Each costs the kernel some hundred nanoseconds, as much as to copy a page, and several threads may do it at
// once.
#include "base/workers.h"
#include "target/memory.h"
#include "target/target.h"

#include <unistd.h>

#ifndef AS_AGENT
enum { LEAST = 512 }; // addresses for each thread: less is not worth one

struct part {
    struct as_target *target;
    const uint64_t *addresses;
    size_t count, length, stride;
    void *out;
    bool *ok;
};

static void *run_gatherer(void *context)
{
    const struct part *p = context;
    as_target_gather(p->target, p->addresses, p->count, p->length, p->out, p->stride, p->ok);
    return NULL;
}

static size_t parts_for(const struct as_target *t, size_t count)
{
    size_t most = count / LEAST < AS_MOST_WORKERS ? count / LEAST : AS_MOST_WORKERS;
    long processors = most > 1 && t->kind == AS_TARGET_PROCESS ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    most = processors > 0 && (size_t)processors < most ? (size_t)processors : most;
    return most > 0 ? most : 1;
}

static struct part part_of(const struct part *whole, size_t first, size_t end)
{
    struct part part = *whole;
    part.addresses += first;
    part.count = end - first;
    part.out = (uint8_t *)part.out + first * part.stride;
    part.ok += first;
    return part;
}

void as_target_gather_wide(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                           size_t stride, bool *ok)
{
    struct part parts[AS_MOST_WORKERS], whole = {t, addresses, count, length, stride, out, NULL};
    size_t n = parts_for(t, count);
    whole.ok = ok;
    for (size_t i = 0; i < n; i++)
        parts[i] = part_of(&whole, count * i / n, count * (i + 1) / n);
    as_workers_run(run_gatherer, parts, sizeof *parts, n);
}
#else // it starts no threads in a process that is not its own
void as_target_gather_wide(struct as_target *t, const uint64_t *addresses, size_t count, size_t length, void *out,
                           size_t stride, bool *ok)
{
    as_target_gather(t, addresses, count, length, out, stride, ok);
}
#endif
