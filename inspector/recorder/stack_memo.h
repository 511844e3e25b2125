// SPDX-License-Identifier: MIT
// What a thread's last allocations have found on its stack: most of it is there at the next allocation, too. It is read in the memory where
// it stood, and believed where it is the same. The first threads that come have this. Internal to profile/.
//
// A signal handler may longjmp out of the recorder at any time: counts are written last, and lowered first.
#pragma once

#include "recorder/python/python.h"
#include "recorder/ruby/ruby.h"

// Where a C function's part of a stack ends, inwards.
struct as_recorder_last_end {
    uint64_t hash;  // of the interpreted frames so far
    uint32_t count; // of the frames
    bool runs;      // the function runs interpreted ones
};

// The last stack that was written down, the outermost frame first.
struct as_recorder_last_stack {
    size_t count;
    uint64_t frames[AS_RECORDER_DEPTH];
    uint32_t stacks[AS_RECORDER_DEPTH]; // of each frame
    size_t functions;                   // C functions of which the ends are known
    size_t common;                      // of these, so many are what they were in all that has been unwound since
    struct as_recorder_last_end ends[AS_RECORDER_DEPTH];
};

// A context that was recognised (context_memo.h).
enum { AS_RECENT_BITS = 6, AS_RECENT_WAYS = 4, AS_RECENT = AS_RECENT_WAYS << AS_RECENT_BITS }; // entries
enum { AS_RECENT_WORDS = 28, AS_RECENT_STEP = 4 }; // of the C stack, and how many are compared together
// How many of Ruby's frames are compared word by word, and how many by their instructions alone.
enum { AS_RECENT_TOP = 3, AS_RECENT_NEXT = 2, AS_RECENT_FRAMES = AS_RECENT_TOP + AS_RECENT_NEXT };
enum { AS_RECENT_SCORE = 4 };
struct as_recorder_recent {
    uintptr_t sp, pc, fp; // of malloc's caller; sp 0: the entry is empty
    uint64_t version;
    uint64_t outer_hash;
    uint32_t id;
    uint8_t words, score;              // words of the C stack
    bool by_fp;                        // fp decides where a frame is
    uint16_t offsets[AS_RECENT_WORDS]; // from sp, in words
    uint32_t values[AS_RECENT_WORDS];  // their lower halves: more than is kept of a signature
    union {
        struct {
            struct as_python_words top;
            uintptr_t entry;        // 3.11: the place of the innermost frame's entry; else 0
            uintptr_t frame, place; // of the next frame, outwards
            uint32_t outer;         // frames outside of the innermost one
        } python;
        struct {
            uintptr_t frame;
            struct as_cruby_words top[AS_RECENT_TOP];
            uintptr_t next[AS_RECENT_NEXT]; // the instructions of those outside of them
        } ruby;
    };
} __attribute__((aligned(64)));

struct as_recorder_last {
    struct as_unwind_last unwound;
    bool is_of_modules; // all code of `unwound` is
    struct as_recorder_last_stack stack;
    struct as_python_last python;
    struct as_cruby_last ruby;
    struct as_recorder_recent recent[AS_RECENT];
    // Signatures that were found lately, as in as_recorder.signatures, but each set in one line of a processor's cache.
    uint64_t lines[1 << AS_RECORDER_LINE_BITS][AS_RECORDER_LINE];
};
enum { AS_RECORDER_LASTS = 1 << 6 };

// outer_frames.c: the frame of the thread's last unwinding, on its own stack, that ends at `sp`; NULL: there is none.
const struct as_unwind_seen *as_recorder_outer_frame(const struct as_recorder_thread *thread, uintptr_t sp);
