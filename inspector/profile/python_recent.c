// SPDX-License-Identifier: MIT
// Whether a thread is in a context that it has been in lately: its innermost Python frame is the entry's, word by word, and the outer ones are
// those of its last walk.
#include "profile/fast.h"
#include "profile/recent.h"

// Where an entry of 3.11 begins is on the C stack.
static inline bool find_frame(struct as_recorder_thread *thread, uintptr_t sp, uintptr_t state, uintptr_t *cframe,
                              uintptr_t *frame)
{
    const struct as_python_layout *l = &as_python.layout;
    *cframe = 0;
    if (l->cframe) {
        *cframe = as_inner_word(state + l->cframe);
        if (*cframe < sp || thread->high - *cframe < AS_PYTHON_CFRAME_READ || *cframe >= thread->high ||
            *cframe % sizeof(uintptr_t) != 0)
            return false;
    }
    *frame = as_inner_word(l->cframe ? *cframe + l->cframe_current : state + l->current);
    return *frame != 0 && *frame % sizeof(uintptr_t) == 0 &&
           as_inner_readable_near(*frame, AS_PYTHON_FRAME_READ, &thread->before->python.page);
}

// Where the innermost frame is, and its caller: by which an entry is found.
static inline uint64_t instructions_at(struct as_python_last *last, uintptr_t frame)
{
    const struct as_python_layout *l = &as_python.layout;
    uintptr_t caller = as_inner_word(frame + l->previous);
    uint64_t found = as_inner_word(frame + l->instruction);
    bool readable =
        caller != 0 && caller % sizeof caller == 0 && as_inner_readable_near(caller, AS_PYTHON_FRAME_READ, &last->page);
    return readable ? found + as_inner_word(caller + l->instruction) * AS_RECORDER_FACTOR : found;
}

// All frames outside of the innermost one.
static inline bool has_outer(const struct as_python_last *last, const struct as_recorder_recent *r)
{
    const struct as_python_layout *l = &as_python.layout;
    if (r->python.outer == 0)
        return true;
    const struct as_python_seen *next = &last->frames[r->python.outer - 1];
    if (r->python.outer > last->count || next->hash != r->outer_hash || next->at.frame != r->python.frame ||
        next->at.place != r->python.place)
        return false;
    for (const struct as_python_seen *seen = next; seen >= last->frames; seen--)
        if (!as_python_is_same(l, &seen->at))
            return false;
    return true;
}

uint32_t as_python_recall(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                          struct as_recorder_attempt *attempt)
{
    struct as_recorder_last *last = thread->before;
    uintptr_t cframe, frame;
    if (!last || !as_python.is_initialized())
        return 0;
    uintptr_t state = (uintptr_t)as_python.state();
    if (state == 0 || !as_python_is_current(&last->python, state) || !as_python_sees_deaths() ||
        !find_frame(thread, caller->sp, state, &cframe, &frame))
        return 0;
    struct as_recorder_recent *r = as_recent_at(last, as_recent_hash(caller, instructions_at(&last->python, frame)));
    uint64_t version = as_recent_version(thread, last->python.deaths);
    for (size_t way = 0; way < AS_RECENT_WAYS; way++, r++) {
        const struct as_python_words *top = &r->python.top;
        if (as_recent_has_stack(r, caller, version) && top->frame == frame &&
            (!as_python.layout.is_entry || top->place == cframe) && as_python_is_same(&as_python.layout, top) &&
            has_outer(&last->python, r))
            return as_recent_found(r);
        attempt->outdated |= as_recent_is_outdated(r, caller, version);
    }
    return 0;
}

bool as_python_keep_recent(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                           struct as_recorder_recent *r, uint64_t *hash)
{
    struct as_python_last *last = &thread->before->python;
    if (last->depth == 0)
        return false;
    r->version = as_recent_version(thread, last->deaths);
    r->python.outer = (uint32_t)last->depth - 1;
    r->python.top = last->frames[last->depth - 1].at;
    if (r->python.outer > 0) {
        const struct as_python_seen *next = &last->frames[r->python.outer - 1];
        r->outer_hash = next->hash;
        r->python.frame = next->at.frame;
        r->python.place = next->at.place;
    }
    *hash = as_recent_hash(caller, instructions_at(last, r->python.top.frame));
    return true;
}
