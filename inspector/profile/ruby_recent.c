// SPDX-License-Identifier: MIT
// Whether a thread is in a context that it has been in lately: its innermost control frames are the entry's, word by word, and the outer ones
// are those of its last walk.
#include "profile/recent.h"

// Where the thread's control frames are: they end where the VM's stack does.
static inline bool find_frames(uintptr_t context, uintptr_t *frame, uintptr_t *end)
{
    *frame = as_inner_word(context + AS_CRUBY_CURRENT);
    *end = as_inner_word(context + AS_CRUBY_STACK) + as_inner_word(context + AS_CRUBY_STACK_SIZE) * sizeof(uintptr_t);
    return *frame % sizeof(uintptr_t) == 0 && *frame < *end && *end - *frame >= 3 * as_cruby.layout.frame_size &&
           as_inner_readable(*frame, 2 * (uintptr_t)as_cruby.layout.frame_size + AS_CRUBY_FRAME_READ);
}

// By which an entry is found: where the innermost frames are. A function in C has no instruction of its own.
static inline uint64_t instructions_at(uintptr_t frame)
{
    const uintptr_t size = as_cruby.layout.frame_size, at = frame + AS_CRUBY_FRAME_PC;
    return as_inner_word(at) + (as_inner_word(at + size) + as_inner_word(at + 2 * size) * 5) * AS_RECORDER_FACTOR;
}

static inline bool has_frames(const struct as_cruby_last *last, const struct as_recorder_recent *r, uintptr_t frame)
{
    const size_t size = as_cruby.layout.frame_size;
    if (r->ruby.frame != frame || r->outer > last->count || last->frames[r->outer - 1].hash != r->outer_hash)
        return false;
    for (size_t i = 0; i < r->ruby.count; i++, frame += size)
        if (!as_cruby_is_same(&r->ruby.top[i], frame))
            return false;
    for (size_t i = r->outer; i-- > 0; frame += size)
        if (!as_cruby_is_same(&last->frames[i].at, frame))
            return false;
    return true;
}

uint32_t as_cruby_recall(struct as_recorder_thread *thread, const struct as_unwind_registers *caller)
{
    struct as_recorder_last *last = thread->before;
    uintptr_t frame, end;
    uintptr_t context = last ? as_cruby_own_context_again(&last->ruby.own) : 0;
    if (context == 0 || !find_frames(context, &frame, &end) ||
        !as_cruby_is_current(&last->ruby, as_cruby.gc_count(), end))
        return 0;
    struct as_recorder_recent *r = as_recent_at(last, caller, instructions_at(frame));
    if (!as_recent_has_stack(r, caller, as_recent_version(thread, last->ruby.gcs + end)) ||
        !has_frames(&last->ruby, r, frame))
        return 0;
    return as_recent_found(r);
}

// The innermost frames up to one of Ruby's: the others are not left between two allocations, mostly.
bool as_cruby_keep_recent(struct as_recorder_thread *thread, struct as_recorder_recent *r, uint64_t *instructions)
{
    const struct as_cruby_last *last = &thread->before->ruby;
    size_t count = 0;
    const struct as_cruby_seen *seen;
    do {
        if (count + 1 >= last->depth || count == AS_RECENT_FRAMES)
            return false;
        seen = &last->frames[last->depth - 1 - count];
        r->ruby.top[count++] = seen->at;
    } while (seen->of_c);
    r->version = as_recent_version(thread, last->gcs + last->end);
    r->ruby.count = (uint32_t)count;
    r->ruby.frame = last->end - last->depth * as_cruby.layout.frame_size;
    r->outer = (uint32_t)(last->depth - count);
    r->outer_hash = last->frames[r->outer - 1].hash;
    *instructions = instructions_at(r->ruby.frame);
    return true;
}
