// SPDX-License-Identifier: MIT
// The events of a trace. Each thread writes its own, in the order of its calls; the times say how those of several threads
// follow each other. A block's end is noted before libc's free() and its beginning after libc's malloc(): of an address that goes from
// one thread to another, the times are in the order of the uses, as the clock is one for all processors.
#include "recorder/trace_events.h"
#include "recorder/context_memo.h"

enum { MOST_WORDS = 4 }; // of one event, and of the time before it

// Where the event's words go, with its first word written; NULL: no buffer is free.
static inline uint64_t *begin_event(struct as_recorder_thread *t, uint32_t kind, const void *memory, uint64_t ticks)
{
    uint64_t *at = atomic_load_explicit(&t->at, memory_order_relaxed);
    bool fresh = t->end - at < MOST_WORDS;
    if (__builtin_expect(fresh, 0)) {
        if (!as_recorder_next_buffer(t))
            return NULL;
        at = atomic_load_explicit(&t->at, memory_order_relaxed);
    }
    uint64_t delta = ticks - t->last;
    if (__builtin_expect(delta > AS_TRACE_MOST_DELTA || fresh, 0)) { // a buffer begins with the time
        *at++ = ticks << AS_TRACE_KIND_BITS | AS_TRACE_TIME;
        delta = 0;
    }
    t->last = ticks;
    *at++ = (uint64_t)(uintptr_t)memory >> 4 << AS_TRACE_ADDRESS_SHIFT | delta << AS_TRACE_KIND_BITS | kind;
    return at;
}

static inline void add_allocation(struct as_recorder_thread *t, uint32_t kind, const void *memory, uint64_t ticks,
                                  size_t size, size_t alignment, uint32_t id)
{
    uint64_t *at = begin_event(t, kind, memory, ticks);
    if (__builtin_expect(!at, 0)) {
        atomic_store_explicit(&t->lost_allocations,
                              atomic_load_explicit(&t->lost_allocations, memory_order_relaxed) + 1,
                              memory_order_relaxed);
        return;
    }
    *at++ = (uint64_t)(size < AS_TRACE_MOST_SIZE ? size : AS_TRACE_MOST_SIZE) << AS_PROFILE_ID_BITS | id;
    if (kind == AS_TRACE_ALIGNED)
        *at++ = alignment;
    atomic_store_explicit(&t->at, at, memory_order_release);
}

static struct as_recorder_thread *own_state(void)
{
    struct as_recorder_thread *t = as_recorder_thread_at(as_recorder_pointer());
    return __builtin_expect(t != NULL, 1) ? t : as_recorder_thread_make(as_recorder_pointer());
}

// NULL: the event is missed, and counted, or the record has ended.
static inline struct as_recorder_thread *enter(uintptr_t sp)
{
    struct as_recorder_thread *t = own_state();
    if (__builtin_expect(!t || !as_recorder_enter(t, sp), 0)) {
        atomic_fetch_add(&as_recorder.missed, 1);
        return NULL;
    }
    if (__builtin_expect(!as_recorder_is_over(t), 1))
        return t;
    as_recorder_leave(t);
    return NULL;
}

void as_recorder_note(uint32_t kind, void *memory, size_t size, size_t alignment, uintptr_t pc, uintptr_t sp,
                      uintptr_t fp)
{
    struct as_unwind_registers caller = {.pc = pc, .sp = sp, .fp = fp};
    struct as_recorder_thread *t = enter(sp);
    if (__builtin_expect(!t, 0)) {
        as_recorder_write_missed(size);
        return;
    }
    // Not before: a handler that allocates would write its events, which are later, in front of this one.
    uint64_t ticks = as_recorder_ticks_after();
    struct as_recorder_attempt attempt;
    const bool attempts = as_recorder_may_recognise(t, sp) && !as_recorder_is_another(t);
    uint32_t id = attempts ? as_recorder_context_quickly(t, &caller, &attempt) : 0;
    t->hits += id != 0;
    if (__builtin_expect(id == 0, 0))
        id = as_recorder_context(t, &caller, attempts ? &attempt : NULL);
    add_allocation(t, kind, memory, ticks, size, alignment, id);
    if (__builtin_expect(as_recorder_wants(t, memory, size, alignment), 0))
        as_recorder_write_known(t, memory, size, id);
    as_recorder_leave(t);
}

void as_recorder_note_free(uint32_t kind, void *memory, uint64_t before, uintptr_t sp)
{
    struct as_recorder_thread *t = enter(sp);
    if (__builtin_expect(!t, 0))
        return;
    // Since `before` a handler has written events. Which came first, its own or the end of this block, nobody knows.
    if (__builtin_expect(before && before < t->last, 0)) {
        atomic_fetch_add(&as_recorder.missed, 1);
        as_recorder_leave(t);
        return;
    }
    uint64_t *at = begin_event(t, kind, memory, before ? before : as_recorder_ticks());
    if (__builtin_expect(at != NULL, 1))
        atomic_store_explicit(&t->at, at, memory_order_release);
    else
        atomic_store_explicit(&t->lost_frees, atomic_load_explicit(&t->lost_frees, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    as_recorder_leave(t);
}
