// SPDX-License-Identifier: MIT
// Whether a thread is in a context that it has been in lately: its innermost Python frame is the entry's, word by word,
// and the outer ones are those of its last walk. All allocations of a Python come by here: words are compared together,
// as a branch takes longer than some words.
#include "recorder/context_memo.h"
#include "recorder/hot_path.h"

static inline bool is_readable_frame(struct as_python_last *last, uintptr_t frame)
{
    return frame % sizeof(uintptr_t) == 0 && as_inner_readable_near(frame, AS_PYTHON_FRAME_READ, &last->near);
}

// The words by which an entry is found, and its innermost frame is compared.
struct innermost {
    uintptr_t frame, previous, instruction;
    uintptr_t entry; // 3.11: where its entry is on the C stack; else 0
    uint64_t hash;   // of its instruction, and its caller's
};

// False: the thread is not in CPython, or not as it should be. Where an entry of 3.11 begins is on the C stack.
static inline bool find_frame(const struct as_recorder_thread *thread, uintptr_t sp, uintptr_t state,
                              struct innermost *in)
{
    const struct as_python_layout *l = &as_python.layout;
    in->entry = 0;
    if (!l->cframe) {
        in->frame = as_inner_word(state + l->current);
        return in->frame != 0;
    }
    uintptr_t cframe = as_inner_word(state + l->cframe);
    if (cframe < sp || cframe > thread->high - AS_PYTHON_CFRAME_READ || cframe % sizeof(uintptr_t) != 0)
        return false;
    in->frame = as_inner_word(cframe + l->cframe_current);
    in->entry = l->is_entry ? cframe : 0;
    return true;
}

static inline bool read_frame(struct as_python_last *last, struct innermost *in)
{
    const struct as_python_layout *l = &as_python.layout;
    if (!is_readable_frame(last, in->frame))
        return false;
    in->previous = as_inner_word(in->frame + l->previous);
    in->hash = in->instruction = as_inner_word(in->frame + l->instruction);
    if (is_readable_frame(last, in->previous))
        in->hash += as_inner_word(in->previous + l->instruction) * AS_RECORDER_FACTOR;
    return true;
}

static inline bool has_innermost(const struct as_recorder_recent *r, const struct innermost *in)
{
    const struct as_python_words *top = &r->python.top;
    return ((top->frame ^ in->frame) | (top->previous ^ in->previous) | (top->instruction ^ in->instruction) |
            (r->python.entry ^ in->entry)) == 0 &&
           as_python_enters_same(&as_python.layout, top);
}

// All frames outside of the innermost one.
static inline bool has_outer(const struct as_python_last *last, const struct as_recorder_recent *r)
{
    const struct as_python_layout *l = &as_python.layout;
    size_t outer = r->python.outer;
    if (outer == 0)
        return true;
    const struct as_python_seen *next = &last->frames[outer - 1];
    if (outer > last->count ||
        ((next->hash ^ r->outer_hash) | (next->at.frame ^ r->python.frame) | (next->at.place ^ r->python.place)) != 0)
        return false;
    while (outer > 0)
        if (!as_python_is_same(l, &last->frames[--outer].at))
            return false;
    return true;
}

uint32_t as_python_recall(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                          struct as_recorder_attempt *attempt)
{
    struct as_recorder_last *last = thread->before;
    struct innermost in;
    if (!last || last->python.state == 0 || as_python_state() != last->python.state ||
        !as_python_is_current(&last->python) ||
        (as_python_may_lose(last->python.state) && !as_python_is_known_in(last->python.state)) ||
        !find_frame(thread, caller->sp, last->python.state, &in) || !as_python_is_initialized() ||
        !as_python_sees_deaths() || !read_frame(&last->python, &in))
        return 0;
    struct as_recorder_recent *set = as_recent_at(last, as_recent_hash(caller, in.hash));
    uint64_t version = as_recent_version(last->python.mark);
    for (struct as_recorder_recent *r = set; r < set + AS_RECENT_WAYS; r++)
        if (as_recent_has_stack(r, caller, version) && has_innermost(r, &in) && has_outer(&last->python, r))
            return as_recent_found(r);
    attempt->outdated = as_recent_is_any_outdated(set, caller, version);
    return 0;
}

bool as_python_keep_recent(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                           struct as_recorder_recent *r, uint64_t *hash)
{
    struct as_python_last *last = &thread->before->python;
    if (last->depth == 0)
        return false;
    const struct as_python_seen *top = &last->frames[last->depth - 1];
    struct innermost in = {.frame = top->at.frame};
    if (!read_frame(last, &in))
        return false;
    r->version = as_recent_version(last->mark);
    r->python.outer = (uint32_t)last->depth - 1;
    r->python.top = top->at;
    r->python.entry = as_python.layout.is_entry ? top->at.place : 0;
    if (r->python.outer > 0) {
        const struct as_python_seen *next = &last->frames[r->python.outer - 1];
        r->outer_hash = next->hash;
        r->python.frame = next->at.frame;
        r->python.place = next->at.place;
    }
    *hash = as_recent_hash(caller, in.hash);
    return true;
}
