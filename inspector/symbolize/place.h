// SPDX-License-Identifier: MIT
// A function that is at an address of code.
#pragma once

#include "base/vec.h"

enum as_place_source {
    AS_PLACE_UNKNOWN,    // nothing but the module and the offset is known
    AS_PLACE_SYMBOL,     // from .symtab or .dynsym
    AS_PLACE_PERF_MAP,   // what a JIT compiler says of its code
    AS_PLACE_DEBUG_INFO, // with file and line, where the compiler knew them
};

// Texts are offsets in the strings of struct as_places; 0: not known. They are a target's: unsafe for a terminal.
struct as_code_place {
    uint32_t function; // demangled
    uint32_t file;
    uint32_t line; // 0: not known
    bool inlined;  // into the one that follows
    uint8_t source;
};

typedef AS_VEC(struct as_code_place) as_place_vec;
