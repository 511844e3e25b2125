// SPDX-License-Identifier: MIT
// Which interpreters this process has. Of a thread that is in functions of two of them, only CPython's are read. Internal to profile/.
#pragma once

#include "recorder/stack_memo.h"

// Takes the loader's lock. False: one of them may come or go unseen, and has to be searched for again.
bool as_interpreters_find(void);

// A hash of all that says in which interpreted functions and lines the calling thread is, 0 where it is in none; and
// the frames themselves, if `walk` is not NULL. `same`: of the attempt (recorder.h); 0: there was none. `sp` and all
// above it is on the thread's own stack. False: the frames are about to be changed, or are not what they should be.
static inline bool as_recorder_inner(const struct as_recorder_thread *thread, uintptr_t sp, size_t same,
                                     struct as_inner_walk *walk, uint64_t *hash)
{
    if (!walk && thread->before)
        thread->before->python.depth = thread->before->ruby.depth = 0;
    if (atomic_load_explicit(&as_python.found, memory_order_acquire) &&
        (!as_python_walk(thread, sp, walk, hash) || *hash != 0))
        return *hash != 0;
    return !atomic_load_explicit(&as_cruby.found, memory_order_acquire) ||
           as_cruby_walk(thread, sp, thread->high, same, walk, hash);
}

// The frames again, right after as_recorder_inner() without a walk. False: the thread has not kept them.
static inline bool as_recorder_inner_again(const struct as_recorder_thread *thread, uintptr_t sp,
                                           struct as_inner_walk *walk)
{
    return as_python_walk_again(thread, walk) || as_cruby_walk_again(thread, sp, walk);
}

// The frame as the tables keep it.
uint64_t as_interpreters_name(struct as_inner_walk *walk, const struct as_inner_frame *frame);
