// SPDX-License-Identifier: MIT
// Whether a thread is in a context that it has been in lately: its innermost control frames are the entry's, word by word, and the outer ones
// are those of its last walk.
#include "profile/recent.h"

// Where the thread's control frames are: they end where the VM's stack does. There are some outside of those that an entry has.
static inline bool find_frames(uintptr_t context, uintptr_t *frame, uintptr_t *end)
{
    const uintptr_t size = as_cruby.layout.frame_size;
    *frame = as_inner_word(context + AS_CRUBY_CURRENT);
    *end = as_inner_word(context + AS_CRUBY_STACK) + as_inner_word(context + AS_CRUBY_STACK_SIZE) * sizeof(uintptr_t);
    uintptr_t bytes = *end - *frame;
    return *frame % sizeof(uintptr_t) == 0 && *frame < *end && bytes > AS_RECENT_FRAMES * size &&
           as_inner_readable(*frame, (AS_RECENT_FRAMES - 1) * size + AS_CRUBY_FRAME_READ);
}

// By which an entry is found: the frames outside of the innermost ones, and the instructions of these. A function in C has none.
static inline uint64_t hash_at(const struct as_unwind_registers *caller, uintptr_t frame, uint64_t outer)
{
    const uintptr_t size = as_cruby.layout.frame_size;
    uint64_t instructions = 0;
    for (size_t i = 0; i < AS_RECENT_FRAMES; i++, frame += size)
        instructions = instructions * 5 + as_inner_word(frame + AS_CRUBY_FRAME_PC);
    return as_recent_hash(caller, instructions * AS_RECORDER_FACTOR + outer);
}

static inline bool has_top(const struct as_recorder_recent *r, uintptr_t frame)
{
    for (size_t i = 0; i < AS_RECENT_FRAMES; i++, frame += as_cruby.layout.frame_size)
        if (!as_cruby_is_same(r->ruby.top[i], frame))
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
    const uintptr_t size = as_cruby.layout.frame_size, outer = frame + AS_RECENT_FRAMES * size;
    size_t same = as_cruby_count_same(&last->ruby, outer);
    if (end - same * size != outer)
        return 0;
    uint64_t outer_hash = last->ruby.frames[same - 1].hash;
    struct as_recorder_recent *r = as_recent_at(last, hash_at(caller, frame, outer_hash));
    uint64_t version = as_recent_version(thread, last->ruby.gcs + end);
    for (size_t way = 0; way < AS_RECENT_WAYS; way++, r++)
        if (as_recent_has_stack(r, caller, version) && r->ruby.frame == frame && r->outer_hash == outer_hash &&
            has_top(r, frame))
            return as_recent_found(r);
    return 0;
}

bool as_cruby_keep_recent(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                          struct as_recorder_recent *r, uint64_t *hash)
{
    const struct as_cruby_last *last = &thread->before->ruby;
    if (last->depth <= AS_RECENT_FRAMES)
        return false;
    for (size_t i = 0; i < AS_RECENT_FRAMES; i++)
        r->ruby.top[i] = as_cruby_words_of(last, last->depth - 1 - i);
    r->version = as_recent_version(thread, last->gcs + last->end);
    r->ruby.frame = last->end - last->depth * as_cruby.layout.frame_size;
    r->outer_hash = last->frames[last->depth - AS_RECENT_FRAMES - 1].hash;
    *hash = hash_at(caller, r->ruby.frame, r->outer_hash);
    return true;
}
