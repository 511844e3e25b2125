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
    struct as_unwind_last unwound;
    struct as_recorder_last_stack stack;
    struct as_python_last python;
    struct as_cruby_last ruby;
};
enum { AS_RECORDER_LASTS = 1 << 6 };
