// SPDX-License-Identifier: MIT
// One hold of an arena's lock: takes it, reads what the arena is now, and gives it back in time.
#include "malloc/find.h"
#include "malloc/heap_info.h"
#include "target/procfs.h"
#include "trim/pages.h"
#include "trim/pass.h"
#include "trim/trim.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    MAX_HEAPS = 1 << 20,
    REST_LEAST_NS = 50000,
};
static const uint64_t PATIENCE_NS = UINT64_C(2000000000); // for a lock

// Adds a range in its place. There must be room: no memory is asked for under the lock.
static bool add_range(struct as_trim_pass *p, uint64_t start, uint64_t end)
{
    if (p->memory.count == p->memory.capacity || start >= end)
        return false;
    size_t at = p->memory.count++;
    for (; at > 0 && p->memory.items[at - 1].start > start; at--)
        p->memory.items[at] = p->memory.items[at - 1];
    p->memory.items[at] = (struct as_range){.start = start, .end = end};
    bool clear = (at == 0 || p->memory.items[at - 1].end <= start) &&
                 (at + 1 == p->memory.count || end <= p->memory.items[at + 1].start);
    return clear;
}

enum reading { READ, NO_ROOM, WRONG };

static enum reading wrong(struct as_trim_pass *p, const char *what)
{
    p->fault = what;
    return WRONG;
}

// The heaps of a thread arena, from the one that holds the top back to the first, which holds malloc_state. Copied by the
// kernel, which does not mind an address that is none.
static enum reading read_heaps(struct as_trim_pass *p)
{
    uint64_t heap_max = p->par->heap_max;
    uint64_t at = as_heap_for_ptr(p->top, heap_max);
    for (size_t n = 0; n < MAX_HEAPS; n++) {
        struct as_heap_info info;
        if (!as_target_read(p->self, at, &info, sizeof info))
            return wrong(p, "a heap's header cannot be read");
        if (as_heap_info_fault(&info, p->libc, at, p->arena, heap_max) || info.mprotect_size < info.size)
            return wrong(p, "a heap's header belongs to no heap of the arena");
        if (p->memory.count == p->memory.capacity)
            return NO_ROOM;
        if (!add_range(p, as_heap_first_chunk(p->libc, at, p->arena, heap_max), at + info.size))
            return wrong(p, "an arena's heaps overlap");
        if (n == 0 && p->top + p->top_size != at + info.size)
            return wrong(p, "the top does not end with its heap");
        if (as_heap_is_first(at, p->arena, heap_max))
            return info.prev == 0 ? READ : wrong(p, "the first heap has one before it");
        at = info.prev;
        if (at == 0 || at % heap_max != 0)
            return wrong(p, "the arena's heaps do not lead to its first");
    }
    return wrong(p, "an arena has too many heaps");
}

// What brk gave is one pages_per_call, from where malloc began to the top's end, with what others took from brk in between.
// Once brk was not enough the arena continues anywhere: any private anonymous memory will do then, by the mappings as last
// read.
static enum reading read_main(struct as_trim_pass *p)
{
    uint64_t end = p->top + p->top_size;
    uint64_t brk = (uint64_t)syscall(SYS_brk, 0);
    uint64_t base = p->par->sbrk_base;
    if (base == AS_UNKNOWN)
        return wrong(p, "the start of the main arena is unknown");
    base = as_align_up(base, AS_ALIGNMENT);
    if (!(p->flags & AS_NONCONTIGUOUS)) {
        if (p->top < base || end > brk)
            return wrong(p, "the main arena's top lies outside of the memory that brk gave");
        return add_range(p, base, end) ? READ : NO_ROOM;
    }
    AS_FOR_EACH(const struct as_mapping, m, &p->self->mappings) {
        if (!as_is_writable_anonymous(m) || !(m->prot & AS_PROT_READ))
            continue;
        struct as_range *last = p->memory.count > 0 ? &p->memory.items[p->memory.count - 1] : NULL;
        if (last && last->end == m->start)
            last->end = m->end;
        else if (p->memory.count == p->memory.capacity)
            return NO_ROOM;
        else
            add_range(p, m->start, m->end);
    }
    if (!as_trim_owns(p, p->top, p->top_size))
        return wrong(p, "the main arena's top lies in memory that is newer than the list of mappings");
    return READ;
}

static enum reading read_arena(struct as_trim_pass *p)
{
    const struct as_state_layout *at = &p->libc->layout.state;
    p->memory.count = 0;
    p->last_range = 0;
    p->fault = NULL;
    p->top = as_word(p->arena + (uint64_t)at->top);
    p->system_mem = as_word(p->arena + (uint64_t)at->system_mem);
    p->flags = __atomic_load_n((const uint32_t *)(uintptr_t)(p->arena + (uint64_t)at->flags), __ATOMIC_RELAXED);
    p->top_size = 0;
    if (p->top == 0 || as_is_initial_top(p->libc, p->arena, p->top))
        return READ;
    uint64_t head;
    if (p->top % AS_ALIGNMENT != 0 || !as_target_read_u64(p->self, p->top + 8, &head))
        return wrong(p, "the top cannot be read");
    p->top_size = as_chunksize(head);
    if ((head & AS_FLAG_BITS) != AS_PREV_INUSE || p->top_size < AS_HEADER || p->top_size % AS_ALIGNMENT != 0 ||
        p->top_size > p->system_mem)
        return wrong(p, "the top's size cannot be right");
    return p->main ? read_main(p) : read_heaps(p);
}

bool as_trim_slice_begin(struct as_trim_pass *p, struct as_error *err)
{
    int32_t mutex = p->libc->layout.state.mutex;
    for (size_t room = 64;; room = 2 * p->memory.capacity) {
        p->memory.count = 0;
        p->fault = NULL;
        if (!as_vec_reserve(&p->memory, room, err))
            return false;
        if (!as_arena_lock(p->arena, mutex, as_now_ns() + PATIENCE_NS))
            return as_fail(err, AS_UNSUPPORTED, "it stayed locked for longer than 2 s");
        p->began = as_now_ns();
        p->unwatched = 0;
        enum reading reading = read_arena(p);
        if (reading == READ)
            return true;
        as_trim_slice_end(p);
        if (reading == WRONG)
            return as_fail(err, AS_BAD_INPUT, "%s", p->fault);
    }
}

void as_trim_slice_end(struct as_trim_pass *p)
{
    as_trim_pages_flush(p);
    uint64_t held = as_now_ns() - p->began;
    bool awaited = as_arena_unlock(p->arena, p->libc->layout.state.mutex);
    if (held > p->longest)
        p->longest = held;
    // The woken thread needs some time to take the lock. Half of the time is for the others.
    if (awaited && p->slice != UINT64_MAX) {
        uint64_t rest = held > REST_LEAST_NS ? held : REST_LEAST_NS;
        as_sleep_ns(rest);
    }
}
