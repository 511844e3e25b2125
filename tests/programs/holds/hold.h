// SPDX-License-Identifier: MIT
// A thread with known values in every register that this processor has: x86-64 only.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The features of XSAVE that are filled (bit i of XCR0); others are left alone.
enum {
    HOLD_X87 = 1 << 0,
    HOLD_SSE = 1 << 1,
    HOLD_AVX = 1 << 2,
    HOLD_OPMASK = 1 << 5,
    HOLD_ZMM = 1 << 6,
    HOLD_ZMM16 = 1 << 7,
    HOLD_PKRU = 1 << 9,
    HOLD_TILECFG = 1 << 17,
    HOLD_TILEDATA = 1 << 18,
    HOLD_APX = 1 << 19,
};

enum { HOLD_BYTES = 32 * 1024, HOLD_GENERAL = 9 };

// Its beginning is known to hold.c's assembly.
struct hold {
    uint8_t *before, *pattern, *after; // states of the processor; aligned to 64
    uint64_t features;                 // 0: no XSAVE, but FXSAVE
    volatile uint64_t ready, go;       // set by hold_spin as it begins to wait; for us, to let it end
    uint64_t general[HOLD_GENERAL];    // of r8 to r10, r12 to r15, rbp, and below the stack pointer; changed by nobody
    uint64_t found[HOLD_GENERAL];      // what they were in the end
    uint64_t fd, byte;                 // of hold_read: what it reads, where to
    int64_t result;                    // of its read
    _Alignas(64) uint8_t states[3][HOLD_BYTES];
};

// What the processor and its kernel have: the features (as XCR0, of those above), 0 without XSAVE.
uint64_t hold_features(void);
// The names of features, for a reader. `text` is returned.
const char *hold_names(uint64_t features, char *text, size_t size);
// Asks for the right to AMX's tiles, for the whole process. 0, or an errno.
int hold_ask_for_tiles(void);

// Makes the patterns; those of no two seeds are alike.
void hold_prepare(struct hold *h, uint64_t features, uint64_t seed);
// Loads all registers, waits for `go` without ever entering the kernel, and checks what they are then.
void hold_spin(struct hold *h);
// Loads all registers, reads a byte from `fd`, and checks what they are then.
void hold_read(struct hold *h);
// NULL: every register has kept its value. Else which has not, in static memory.
const char *hold_difference(const struct hold *h);
