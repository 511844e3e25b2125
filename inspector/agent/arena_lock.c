// SPDX-License-Identifier: MIT
#include "agent/arena_lock.h"
#include "malloc/refresh.h"
#include "target/process/procfs.h"
#include "trim/lock.h"

// A thread that holds an arena's lock for so long is stopped, or waits for us: a tracer's work, or a signal handler's that
// interrupted malloc. The arena is read without its lock then.
#define PATIENCE_NS UINT64_C(1000000000)

static void release(void *context, struct as_heaps *h)
{
    struct as_arena_locks *hold = context;
    h->target->in_place.ranges.count = 0;
    for (size_t i = 0; hold->arena != 0 && i < h->arenas.count; i++) {
        if (h->arenas.items[i].address != hold->arena)
            continue;
        as_arena_unlock(hold->arena, h->arenas.items[i].libc->layout.state.mutex);
        uint64_t held = as_now_ns() - hold->since;
        hold->longest_ns = held > hold->longest_ns ? held : hold->longest_ns;
        hold->arena = 0;
    }
}

// The memory of an arena's heaps neither goes away nor is protected while its lock is held: malloc does both only under it, and
// who else does it to a page with a header on it breaks malloc.
static bool declare_steady(struct as_heaps *h, uint32_t arena, uint32_t first, struct as_error *err)
{
    for (size_t i = first; i < h->heaps.count && h->heaps.items[i].arena == arena; i++) {
        struct as_range *range = as_vec_add(&h->target->in_place.ranges, err);
        if (!range)
            return false;
        *range = (struct as_range){h->heaps.items[i].start, h->heaps.items[i].end};
    }
    return true;
}

static bool take(void *context, struct as_heaps *h, uint32_t arena, uint32_t first, struct as_error *err)
{
    struct as_arena_locks *hold = context;
    const struct as_arena *a = &h->arenas.items[arena];
    h->target->in_place.ranges.count = 0;
    // What has not been proven to be an arena is not written to.
    if (!a->libc->proven || a->libc->layout.state.mutex == AS_NONE ||
        !as_arena_lock(a->address, a->libc->layout.state.mutex, as_now_ns() + PATIENCE_NS)) {
        hold->missed++;
        return true;
    }
    hold->arena = a->address;
    hold->since = as_now_ns();
    bool fresh;
    bool ok = as_heaps_refresh(h, arena, first, &fresh, err);
    hold->fresh += fresh;
    // Every arena has been read under its lock, and whole: what seemed to be missing before was on its way.
    if (hold->fresh == h->arenas.count)
        h->incomplete = false;
    if (ok && declare_steady(h, arena, first, err))
        return true;
    release(hold, h);
    return false;
}

struct as_arena_hold as_arena_locks_hooks(struct as_arena_locks *hold)
{
    return (struct as_arena_hold){.take = take, .release = release, .context = hold};
}
