// SPDX-License-Identifier: MIT
// What a thread's last allocations have found on its stack: most of it is there at the next allocation, too. It is read in the memory where
// it stood, and believed where it is the same. The first threads that come have this. Internal to profile/.
//
// A signal handler may longjmp out of the recorder at any time: counts are written last, and lowered first.
#pragma once

#include "profile/python.h"
#include "profile/ruby.h"

// The last stack that was written down, the outermost frame first.
struct as_recorder_last_stack {
    size_t count;
    uint64_t frames[AS_RECORDER_DEPTH];
    uint32_t stacks[AS_RECORDER_DEPTH]; // as_profile_stack of each frame
};

struct as_recorder_last {
    _Atomic uint32_t thread; // its index + 1; 0: nobody's
    struct as_unwind_last unwound;
    struct as_recorder_last_stack stack;
    struct as_python_last python;
    struct as_cruby_last ruby;
};
enum { AS_RECORDER_LASTS = 1 << 6 };

// NULL: others came first.
static inline struct as_recorder_last *as_recorder_last_of(const struct as_recorder_thread *thread)
{
    struct as_recorder_last *last = &as_recorder.lasts[thread->index % AS_RECORDER_LASTS];
    uint32_t name = thread->index + 1U, known = atomic_load_explicit(&last->thread, memory_order_relaxed);
    if (__builtin_expect(known == name, 1))
        return last;
    return known == 0 && atomic_compare_exchange_strong(&last->thread, &known, name) ? last : NULL;
}
