// SPDX-License-Identifier: MIT
#include "agent/own_snapshot.h"
#include "malloc/find.h"
#include "target/procfs.h"
#include "trim/trim.h"

// The deadline for an arena's lock. A thread that holds the lock for longer is stopped by a tracer, or waits for the agent in a
// signal handler that interrupted malloc. The arena is read without its lock then.
#define LOCK_DEADLINE_NS UINT64_C(1000000000)

static void unlock(void *context, struct as_heaps *h)
{
    struct as_arena_locks *locks = context;
    h->target->in_place.ranges.count = 0;
    for (size_t i = 0; locks->arena != 0 && i < h->arenas.count; i++) {
        if (h->arenas.items[i].address != locks->arena)
            continue;
        as_arena_unlock(locks->arena, h->arenas.items[i].libc->layout.state.mutex);
        uint64_t held = as_now_ns() - locks->since;
        locks->longest_ns = held > locks->longest_ns ? held : locks->longest_ns;
        locks->arena = 0;
    }
}

// The memory of an arena's heaps is neither unmapped nor protected while the arena's lock is held: malloc does both only under
// the lock, and code that does either to a page with a chunk's header breaks malloc.
static bool declare_steady(struct as_heaps *h, uint32_t arena, uint32_t first, struct as_error *err)
{
    for (size_t i = first; i < h->heaps.count && h->heaps.items[i].arena == arena; i++) {
        if (!as_vec_push(&h->target->in_place.ranges, err,
                         (struct as_range){h->heaps.items[i].start, h->heaps.items[i].end}))
            return false;
    }
    return true;
}

static bool lock(void *context, struct as_heaps *h, uint32_t arena, uint32_t first, struct as_error *err)
{
    struct as_arena_locks *locks = context;
    const struct as_arena *a = &h->arenas.items[arena];
    h->target->in_place.ranges.count = 0;
    // The lock is a write: the address must be proven to be an arena.
    if (!a->libc->proven || a->libc->layout.state.mutex == AS_NONE ||
        !as_arena_lock(a->address, a->libc->layout.state.mutex, as_now_ns() + LOCK_DEADLINE_NS)) {
        locks->missed++;
        return true;
    }
    locks->arena = a->address;
    locks->since = as_now_ns();
    bool fresh;
    bool ok = as_heaps_refresh(h, arena, first, &fresh, err);
    locks->fresh += fresh;
    // Every arena has been read under its lock, and is complete: what was missing before was being changed.
    if (locks->fresh == h->arenas.count)
        h->incomplete = false;
    if (ok && declare_steady(h, arena, first, err))
        return true;
    unlock(locks, h);
    return false;
}

struct as_arena_hold as_arena_locks_hooks(struct as_arena_locks *locks)
{
    return (struct as_arena_hold){.take = lock, .release = unlock, .context = locks};
}
