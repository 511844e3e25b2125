// SPDX-License-Identifier: MIT
// The return addresses of a stack, by the tables of the modules. No malloc, no lock, no TLS, no system call: for hooks of malloc and
// signal handlers. Reads nothing but the stacks that it is given.
#pragma once

#include "unwind/modules.h"

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
    size_t mask; // number of entries - 1; the number is a power of two, 4,096 say
    struct as_unwind_cached {
        _Atomic uint64_t check;
        _Atomic uint64_t rule;
    } entries[];
};
#define AS_UNWIND_CACHE_BYTES(entries_) (sizeof(struct as_unwind_cache) + (entries_) * sizeof(struct as_unwind_cached))

// Writes the return addresses above the frame `start` (whose own pc is not among them), innermost first, at most `max`, and returns
// how many. slots[i] is the address of the stack's word where pcs[i] was found, 0 where a register had it; in a pointer-authenticating
// program that word has sign bits which pcs[i] has not. slots may be NULL, and cache too. `complete` says whether the outermost
// frame was reached; if not, what stands there is right, and more frames are above.
size_t as_unwind_stack(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                       const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache, uintptr_t *pcs,
                       uintptr_t *slots, size_t max, bool *complete);

// The last stack that a thread has unwound to its end: most of the next one is the same. A frame is the one that it was where all words
// that lead to it, and from it, are what they were. Its memory is the caller's; zeros are nothing. A signal handler may longjmp away
// while it is written.
enum { AS_UNWIND_MOST = 256 };
struct as_unwind_seen {
    uintptr_t sp, pc, fp;
    uintptr_t slot, word; // where pc stands, and how
    uintptr_t fp_place;   // where fp was read; 0: it is the one of the frame before
    uintptr_t sp_place;   // where sp was read; 0: it was computed
    bool uses_fp;         // the step that leads on from here
    bool needs_fp;        // or one behind it
};
struct as_unwind_last {
    uint64_t generation; // of the modules
    uintptr_t end;       // of the stack
    size_t count;        // frames, the last of `frames`
    struct as_unwind_seen frames[AS_UNWIND_MOST];
    struct as_unwind_seen fresh[AS_UNWIND_MOST]; // of the stack that is being unwound
};

// As as_unwind_stack(), for one thread alone, and at most AS_UNWIND_MOST frames.
size_t as_unwind_again(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                       const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache,
                       struct as_unwind_last *last, uintptr_t *pcs, uintptr_t *slots, size_t max, bool *complete);

// The rule (rule.h) by which the frame that goes on at `pc`, behind a call, is undone. cache may be NULL.
uint64_t as_unwind_rule_behind(const struct as_unwind_modules *modules, struct as_unwind_cache *cache, uintptr_t pc);
