// SPDX-License-Identifier: MIT
#include "recorder/context_memo.h"
#include "recorder/hot_path.h"

#include <errno.h>

enum { ONE = 1024 }; // the weight of an allocation that stands for itself

// What was sampled of a context; where there is no room for it, of what was allocated without one.
static struct as_profile_sampled *sampled_of(uint32_t id)
{
    uint32_t *at = &as_recorder.contexts[id].sampled, there = __atomic_load_n(at, __ATOMIC_RELAXED);
    if (there == 0) {
        uint64_t place = as_recorder_take_places(&as_recorder.head->sampled, 1);
        if (place == UINT64_MAX)
            there = as_recorder.contexts[AS_PROFILE_LOST].sampled;
        else if (__atomic_compare_exchange_n(at, &there, (uint32_t)place, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            there = (uint32_t)place;
    }
    return &as_recorder.sampled[there];
}

static void add_allocated(struct as_profile_sampled *s, uint64_t weight, size_t size)
{
    uint64_t bytes = (uint64_t)((double)weight * (double)size / ONE);
    __atomic_fetch_add(&s->objects, weight, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->bytes, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&as_recorder.allocated, bytes, __ATOMIC_RELAXED);
}

static void sample(struct as_recorder_thread *thread, uint32_t id, size_t size)
{
    uint64_t weight = as_recorder_weight(size ? size : 1, as_recorder.mean);
    thread->until = as_recorder_distance(&thread->random, as_recorder.mean);
    AS_RECORDER_COUNT(samples);
    struct as_profile_sampled *s = sampled_of(id);
    __atomic_fetch_add(&s->samples, 1, __ATOMIC_RELAXED);
    add_allocated(s, weight, size);
}

void as_recorder_write_missed(size_t size)
{
    if (as_recorder.mean && atomic_load_explicit(&as_recorder.on, memory_order_relaxed))
        add_allocated(sampled_of(AS_PROFILE_LOST), ONE, size);
}

// A sample is due, and the thread has been interrupted in the recorder. Where the interrupted allocation has made it due, nothing is drawn
// by chance until that one has been sampled: what is allocated meanwhile stands for itself.
static void sample_interrupting(struct as_recorder_thread *thread, size_t size)
{
    if (as_recorder_is_over(thread))
        return;
    if (thread->until + (int64_t)size > 0)
        sample(thread, AS_PROFILE_LOST, size);
    else
        add_allocated(sampled_of(AS_PROFILE_LOST), ONE, size);
}

static inline void write_slot(_Atomic uint32_t *slot, uint32_t check, uint32_t id)
{
    atomic_store_explicit(slot, check << AS_PROFILE_ID_BITS | id, memory_order_relaxed);
}

static void write_down(uintptr_t chunk, uint64_t chunk_size, uint32_t id)
{
    _Atomic uint32_t *slot = as_recorder_slot(chunk, true);
    if (slot)
        write_slot(slot,
                   as_recorder_is_watched(chunk) ? as_profile_check(chunk, chunk_size)
                                                 : as_profile_large_check(chunk, chunk_size),
                   id);
    if (id == AS_PROFILE_LOST || !slot)
        AS_RECORDER_COUNT(lost);
}

void as_recorder_write_known(struct as_recorder_thread *thread, void *memory, size_t size, uint32_t id)
{
    uintptr_t chunk = (uintptr_t)memory - 16;
    uint64_t chunk_size = as_recorder_size_of(chunk);
    if (thread->until <= 0)
        sample(thread, id, size);
    if (as_recorder_is_watched(chunk) || chunk_size >= as_recorder.large)
        write_down(chunk, chunk_size, id);
}

// Not inline, so that the usual case keeps nothing for this one.
static __attribute__((noinline)) void write_slowly(struct as_recorder_thread *thread, void *memory, size_t size,
                                                   uintptr_t pc, uintptr_t sp, uintptr_t fp)
{
    struct as_recorder *r = &as_recorder;
    struct as_unwind_registers caller = {.pc = pc, .sp = sp, .fp = fp};
    int saved = errno;
    uintptr_t chunk = (uintptr_t)memory - 16;
    uint64_t chunk_size = as_recorder_size_of(chunk);
    bool fresh = !thread;
    if (fresh && (thread = as_recorder_thread_make(as_recorder_pointer())))
        thread->until -= (int64_t)size;
    if (!thread && r->mean) {
        AS_RECORDER_COUNT(unsampled);
        as_recorder_write_missed(size);
    }
    bool sampled = thread && thread->until <= 0;
    bool watched = as_recorder_is_watched(chunk) || chunk_size >= r->large;
    if (!sampled && !watched)
        return;
    uint32_t id = AS_PROFILE_LOST;
    bool entered = thread && as_recorder_enter(thread, sp);
    if (entered && as_recorder_is_over(thread)) {
        watched = false;
    } else if (entered) {
        id = as_recorder_context(thread, &caller, NULL);
        if (sampled)
            sample(thread, id, size);
    } else if (sampled) {
        sample_interrupting(thread, size);
    }
    if (watched)
        write_down(chunk, chunk_size, id);
    if (entered)
        as_recorder_leave(thread);
    errno = saved;
}

// The usual case first, in which no function is called but for an interpreter's frames: no sample is due, the thread is
// on the part of its own stack that is known, the page has slots, and the context is recognised, as a rule.
void as_recorder_write(struct as_recorder_thread *thread, void *memory, size_t size, uintptr_t pc, uintptr_t sp,
                       uintptr_t fp)
{
    uintptr_t chunk = (uintptr_t)memory - 16;
    if (__builtin_expect(thread && thread->until > 0 && as_recorder_may_recognise(thread, sp) &&
                             as_recorder_is_watched(chunk) && as_recorder_enter(thread, sp),
                         1)) {
        struct as_unwind_registers caller = {.pc = pc, .sp = sp, .fp = fp};
        // The slot's place is of this profile from here on, and the state is of this thread's address.
        _Atomic uint32_t *slot =
            as_recorder_is_over(thread) || as_recorder_is_another(thread) ? NULL : as_recorder_slot_at(thread, chunk);
        if (__builtin_expect(slot != NULL, 1)) {
            struct as_recorder_attempt attempt;
            uint32_t id = as_recorder_context_quickly(thread, &caller, &attempt);
            if (__builtin_expect(id != 0, 1))
                thread->hits++;
            else
                id = as_recorder_context(thread, &caller, &attempt);
            write_slot(slot, as_profile_check(chunk, as_recorder_size_of(chunk)), id);
            if (__builtin_expect(id == AS_PROFILE_LOST, 0))
                AS_RECORDER_COUNT(lost);
            as_recorder_leave(thread);
            return;
        }
        as_recorder_leave(thread);
    }
    write_slowly(thread, memory, size, pc, sp, fp);
}
