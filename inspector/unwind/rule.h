// SPDX-License-Identifier: MIT
// How a frame is undone, in one word: where its caller's stack pointer (the CFA), frame pointer and return address are. Offsets are in
// units of 8 bytes; a frame that needs another unit, or more than 4 MiB, has the rule "none".
//
// The third register is what each architecture needs beside the frame pointer: on x86-64 rbx, on which ld.so's resolvers stand while
// they call; on aarch64 x30, the return address. On x86-64 the return address is always right below the CFA.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// What the CFA is computed from.
enum as_unwind_kind {
    AS_UNWIND_SPECIAL, // the field of the CFA is an enum as_unwind_special
    AS_UNWIND_SP,      // stack pointer + offset
    AS_UNWIND_FP,      // frame pointer + offset
    AS_UNWIND_THIRD,   // third register + offset
    AS_UNWIND_AT_FP,   // the word at frame pointer + offset
    AS_UNWIND_AT_SP,   // the word at stack pointer + offset
    AS_UNWIND_KINDS,
};

enum as_unwind_special {
    AS_UNWIND_UNCOVERED, // no table says anything about this code
    AS_UNWIND_NONE,      // the table says what a rule cannot express
    AS_UNWIND_END,       // the outermost frame
    AS_UNWIND_SIGNAL,    // the kernel's signal frame is at the stack pointer
    AS_UNWIND_BARE,      // likewise, but it is a module's
    AS_UNWIND_PLT = 16,  // + n: one more word is on the stack from byte n of each 16 bytes of code on
    AS_UNWIND_SPECIALS = AS_UNWIND_PLT + 16,
};

enum { AS_UNWIND_OFFSETS = 1 << 18, AS_UNWIND_CFA_OFFSETS = 1 << 19 }; // offsets are below, and not below minus this
enum { AS_UNWIND_KEPT = 0, AS_UNWIND_LOST = -AS_UNWIND_OFFSETS };      // instead of a saved register's offset

#define AS_UNWIND_FP_BY_FP (UINT64_C(1) << 3) // the frame pointer was saved at itself + offset, not at the CFA + offset
#define AS_UNWIND_THIRD_BY_FP (UINT64_C(1) << 4) // likewise the third register
#define AS_UNWIND_EXACT (UINT64_C(1) << 5)       // the caller was interrupted: its address is not that behind a call

static inline uint64_t as_unwind_rule(enum as_unwind_kind kind, int64_t cfa, int64_t fp, int64_t third)
{
    return (uint64_t)kind | ((uint64_t)cfa & 0xfffff) << 6 | ((uint64_t)fp & 0x7ffff) << 26 | (uint64_t)third << 45;
}

static inline uint64_t as_unwind_special(int64_t special)
{
    return as_unwind_rule(AS_UNWIND_SPECIAL, special, 0, 0);
}

static inline enum as_unwind_kind as_unwind_kind(uint64_t rule)
{
    return (enum as_unwind_kind)(rule & 7);
}

static inline int64_t as_unwind_cfa(uint64_t rule)
{
    return (int64_t)(rule << 38) >> 44;
}

static inline int64_t as_unwind_fp(uint64_t rule)
{
    return (int64_t)(rule << 19) >> 45;
}

static inline int64_t as_unwind_third(uint64_t rule)
{
    return (int64_t)rule >> 45;
}
