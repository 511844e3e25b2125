// SPDX-License-Identifier: MIT
// What a stack is unwound from, and what is known of it then.
#pragma once

#include "unwind/unwind_modules.h"

#include <stdatomic.h>

// A frame's registers: `pc` is where it goes on.
struct as_unwind_registers {
    uintptr_t pc;
    uintptr_t sp;
    uintptr_t fp;    // rbp, x29
    uintptr_t third; // rbx, x30
    bool exact;      // pc was interrupted; else it is behind a call
};

// The frame that called the function in which this stands, whatever the flags of the compiler: the function gets a frame pointer. Not in a
// function that is inlined (say noinline), or that has to realign its stack in which __builtin_dwarf_cfa is wrong (main, -mstackrealign
// with alloca). rbx is unknown, which only the resolvers of ld.so would need.
#define AS_UNWIND_CALLER()                                                                                             \
    ((struct as_unwind_registers){                                                                                     \
        .pc = (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)),                                   \
        .sp = (uintptr_t)__builtin_dwarf_cfa(),                                                                        \
        .fp = *(uintptr_t *)__builtin_frame_address(0),                                                                \
    })

// Where the thread's stack ends (exclusive). If a signal came on an alternate stack, `end` is that one's and the stack below it is
// the interrupted one, of which [interrupted_start, interrupted_end) is readable; else both are 0.
struct as_unwind_stacks {
    uintptr_t end;
    uintptr_t interrupted_start;
    uintptr_t interrupted_end;
};

// Rules found before, by address; one for each thread, or shared by all: no lock is needed. Zeros are an empty cache. Its memory is
// the caller's.
struct as_unwind_cache {
    _Atomic size_t mask; // number of entries - 1; the number is a power of two, 4,096 say
    size_t
        most; // entries that there is room for, less one: `mask` grows up to it, where addresses want each other's; 0: never
    _Atomic size_t evicted; // entries that others have taken since it grew
    struct as_unwind_cached {
        _Atomic uint64_t check;
        _Atomic uint64_t rule;
    } entries[];
};
#define AS_UNWIND_CACHE_BYTES(entries_) (sizeof(struct as_unwind_cache) + (entries_) * sizeof(struct as_unwind_cached))

// Where frames are; what is not wanted is NULL, or 0. slots: as of as_unwind_stack(), of the first `slot_count`. ends[i] is where the stack
// frame of the function that goes on to pcs[i] ends: the stack pointer with which it was called (the CFA). Its variables are below,
// wherever it has saved its return address. (Of code without a table: the end of its frame record.)
struct as_unwind_places {
    uintptr_t *slots;
    size_t slot_count;
    uintptr_t *ends;
};

// The last stack that a thread has unwound to its end: most of the next one is the same. A frame is the one that it was where all words
// that lead to it, and from it, are what they were. Its memory is the caller's; zeros are nothing. A signal handler may longjmp away
// while it is written.
enum { AS_UNWIND_MOST = 256 };
struct as_unwind_seen {
    uintptr_t sp, pc, fp;
    uintptr_t slot, word; // where pc stands, and how
    uintptr_t fp_place;   // where fp was read; 0: it is the one of the frame before
    uintptr_t sp_place;   // where sp was read; 0: it was computed
    uint8_t by;           // the kind of the rule that led here: one of as_unwind_kind
    bool uses_fp;         // the step that leads on from here
    bool needs_fp;        // or one behind it
};
struct as_unwind_last {
    uint64_t generation; // of the modules
    uintptr_t end;       // of the stack
    size_t count;        // frames, the last of `frames`
    size_t kept;         // of the last unwinding: frames that were here before, from the outermost one
    bool is_whole;       // what is here is the stack that was unwound last
    struct as_unwind_seen frames[AS_UNWIND_MOST];
    struct as_unwind_seen fresh[AS_UNWIND_MOST]; // of the stack that is being unwound
};

// The frame stands where it did, and was reached as it was, if the one before it was: to be asked only of memory from `low` on.
static inline bool as_unwind_is_same(const struct as_unwind_seen *seen, uintptr_t low)
{
    return *(const uintptr_t *)seen->slot == seen->word &&
           (seen->sp_place == 0 || (seen->sp_place >= low && *(const uintptr_t *)seen->sp_place == seen->sp)) &&
           (!seen->needs_fp || seen->fp_place == 0 ||
            (seen->fp_place >= low && *(const uintptr_t *)seen->fp_place == seen->fp));
}
