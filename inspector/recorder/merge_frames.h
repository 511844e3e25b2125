// SPDX-License-Identifier: MIT
// The frames of a stack as the tables keep them: where an interpreter runs, its functions stand in place of the C function that runs them.
// Internal to profile/.
#pragma once

#include "recorder/interp_frames.h"
#include "recorder/stack_memo.h"

// A stack that has been unwound.
struct as_recorder_unwound {
    const struct as_unwind_modules *modules;
    uintptr_t pc; // of malloc's caller
    size_t count; // frames behind
    const uintptr_t *pcs, *ends;
    struct as_inner_walk *walk; // NULL, or with no frames: there are none of an interpreter
};

// The frames, the outermost one first. The first `same` are the first of the thread's last stack, and are not written again.
struct as_recorder_merged {
    uint64_t *frames;
    size_t count, same;
    size_t functions; // C functions of which `last` knows the ends, once all is written
    bool cut;         // the outermost ones are missing
};

// `room`: for AS_RECORDER_DEPTH frames where there are none of an interpreter; it may be where `ends` is. `last`: NULL, or the thread's
// last stack; what is kept there of C functions is brought up to date.
struct as_recorder_merged as_recorder_merge(const struct as_recorder_unwound *u, uint64_t *room,
                                            struct as_recorder_last_stack *last);
