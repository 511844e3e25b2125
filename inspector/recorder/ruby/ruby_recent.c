// SPDX-License-Identifier: MIT
// Whether a thread is in a context that it has been in lately: its innermost control frames are the entry's, and so is
// the hash of the outer ones. These are mostly those of the thread's last walk; where one is not, it is walked from
// there on: so an entry also has the next frames outside of the few that are compared word by word.
#include "recorder/context_memo.h"

// Where the thread's control frames are, and how many of them an entry has: there are some outside of those.
struct frames {
    uintptr_t frame, end; // the innermost one; the VM's stack ends where they do
    size_t inner;
};

// False: there are too few.
static inline bool choose_inner(struct frames *f)
{
    const uintptr_t size = as_cruby.layout.frame_size, bytes = f->end - f->frame;
    f->inner = bytes > AS_RECENT_FRAMES * size ? AS_RECENT_FRAMES : AS_RECENT_TOP;
    return bytes > f->inner * size;
}

static inline bool find_frames(uintptr_t context, struct frames *f)
{
    f->frame = as_inner_word(context + AS_CRUBY_CURRENT);
    f->end = as_inner_word(context + AS_CRUBY_STACK) + as_inner_word(context + AS_CRUBY_STACK_SIZE) * sizeof(uintptr_t);
    return f->frame % sizeof(uintptr_t) == 0 && f->frame < f->end && choose_inner(f) &&
           as_inner_readable(f->frame, (f->inner - 1) * as_cruby.layout.frame_size + AS_CRUBY_FRAME_READ);
}

// By which an entry is found: the frames outside of the innermost ones, and the instructions of these. A function in C has none.
static inline uint64_t hash_at(const struct as_unwind_registers *caller, const struct frames *f, uint64_t outer)
{
    uint64_t instructions = 0;
    uintptr_t frame = f->frame;
    for (size_t i = 0; i < f->inner; i++, frame += as_cruby.layout.frame_size)
        instructions = instructions * 5 + as_inner_word(frame + AS_CRUBY_FRAME_PC);
    return as_recent_hash(caller, instructions * AS_RECORDER_FACTOR + outer);
}

static inline bool has_innermost(const struct as_recorder_recent *r, const struct frames *f)
{
    const uintptr_t size = as_cruby.layout.frame_size;
    uintptr_t frame = f->frame, differs = 0;
    for (size_t i = 0; i < AS_RECENT_TOP; i++, frame += size)
        if (!as_cruby_is_same(r->ruby.top[i], frame))
            return false;
    for (size_t i = AS_RECENT_TOP; i < f->inner; i++, frame += size)
        differs |= as_inner_word(frame + AS_CRUBY_FRAME_PC) ^ r->ruby.next[i - AS_RECENT_TOP];
    return differs == 0;
}

uint32_t as_cruby_recall(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                         struct as_recorder_attempt *attempt)
{
    struct as_recorder_last *last = thread->before;
    struct frames f;
    uintptr_t context = last ? as_cruby_own_context_again(&last->ruby.own) : 0;
    if (context == 0 || !find_frames(context, &f) ||
        !as_cruby_is_current(&last->ruby, as_cruby_gc_count(&last->ruby.own), f.end))
        return 0;
    const uintptr_t size = as_cruby.layout.frame_size, outer = f.frame + f.inner * size;
    size_t same = as_cruby_count_same(&last->ruby, outer, 0);
    if (f.end - same * size != outer) {
        if (!as_cruby_walk_outer(&last->ruby, same, outer))
            return 0;
        same = last->ruby.count;
    }
    attempt->same = same;
    uint64_t outer_hash = last->ruby.frames[same - 1].hash;
    struct as_recorder_recent *set = as_recent_at(last, hash_at(caller, &f, outer_hash));
    uint64_t version = as_recent_version(as_recent_mark(thread, last->ruby.gcs + f.end));
    for (struct as_recorder_recent *r = set; r < set + AS_RECENT_WAYS; r++)
        if (as_recent_has_stack(r, caller, version) && r->ruby.frame == f.frame && r->outer_hash == outer_hash &&
            has_innermost(r, &f))
            return as_recent_found(r);
    attempt->outdated = as_recent_is_any_outdated(set, caller, version);
    return 0;
}

bool as_cruby_keep_recent(struct as_recorder_thread *thread, const struct as_unwind_registers *caller,
                          struct as_recorder_recent *r, uint64_t *hash)
{
    const struct as_cruby_last *last = &thread->before->ruby;
    struct frames f = {.frame = last->end - last->depth * as_cruby.layout.frame_size, .end = last->end};
    if (!choose_inner(&f))
        return false;
    for (size_t i = 0; i < AS_RECENT_TOP; i++)
        r->ruby.top[i] = as_cruby_words_of(last, last->depth - 1 - i);
    for (size_t i = AS_RECENT_TOP; i < f.inner; i++)
        r->ruby.next[i - AS_RECENT_TOP] = last->pcs[last->depth - 1 - i];
    r->version = as_recent_version(as_recent_mark(thread, last->gcs + last->end));
    r->ruby.frame = f.frame;
    r->outer_hash = last->frames[last->depth - f.inner - 1].hash;
    *hash = hash_at(caller, &f, r->outer_hash);
    return true;
}
