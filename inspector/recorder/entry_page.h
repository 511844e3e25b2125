// SPDX-License-Identifier: MIT
// One page of a process, near its libc: which functions of libc's have a jump to the recorder's hooks at their entry, and the code that
// belongs to it. The agent makes the page; the code, and the jumps, are written from outside (inject/entry/entry_guard.h). It is never
// unmapped: a thread may be in it.
#pragma once

#include <stdint.h>

#define AS_ENTRY_MAGIC UINT64_C(0x327972746e657261) // "arentry2"

enum {
    AS_ENTRY_MALLOCS = 8,    // malloc and its kin, which come first
    AS_ENTRY_COUNT = 9,      // and dlclose, which is libdl's before glibc 2.34
    AS_ENTRY_JUMP = 5,       // bytes of a jump, which is all that is written to a function
    AS_ENTRY_MOST = 16,      // bytes of the instructions that the jump stands on, at most
    AS_ENTRY_PAGE = 4096,    // bytes
    AS_ENTRY_CODE = 2048,    // where the first place is
    AS_ENTRY_PLACE = 128,    // bytes of a place, one for each function:
    AS_ENTRY_WAY_ON = 64,    // first the way to the original, and here the way to the hook
    AS_ENTRY_REACH = 1 << 30 // how far from libc the page may lie; a jump reaches twice as far
};

struct as_entry {
    uint64_t function; // address; 0: libc has no such function, or the entry is also that of another one in the list
    uint64_t size;     // of its code
    uint64_t hook;
    // From outside:
    uint32_t at;     // where the jump is: behind the function's endbr64, if it begins with one
    uint32_t length; // of the instructions that the jump stands on; 0: none was written ever
    uint8_t original[AS_ENTRY_MOST], jump[AS_ENTRY_MOST];
};

struct as_entry_page {
    uint64_t magic;
    uint64_t self; // address of this
    struct as_entry entries[AS_ENTRY_COUNT];
};
_Static_assert(sizeof(struct as_entry_page) <= AS_ENTRY_CODE, "the code lies behind");
_Static_assert(AS_ENTRY_CODE + AS_ENTRY_COUNT * AS_ENTRY_PLACE <= AS_ENTRY_PAGE, "all is one page");

// Where the way to the original function is.
static inline uint64_t as_entry_place(uint64_t page, uint32_t index)
{
    return page + AS_ENTRY_CODE + (uint64_t)index * AS_ENTRY_PLACE;
}
