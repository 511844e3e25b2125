// SPDX-License-Identifier: MIT
// The functions and source lines that debug information has at an address. Nothing in a file is trusted: what libdw sees is a bounded
// copy (libc/debug_info.h), and we descend to a bounded depth.
#pragma once

#include "base/vec.h"
#include "libc/debug_info.h"

// A function that is at an address of code.
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

// A unit's, or a function's, range of addresses, and the DIE.
struct as_lines_range {
    uint64_t start, end;
    void *address, *unit; // of the DIE
};

typedef AS_VEC(struct as_lines_range) as_lines_ranges;

// The functions of a unit, in the list of all.
struct as_lines_unit {
    const void *unit;
    size_t first, end;
};

struct as_source_lines {
    struct as_debug_info info;
    as_lines_ranges units;     // ascending
    as_lines_ranges functions; // of the units that were asked for; ascending within each unit
    AS_VEC(struct as_lines_unit) read;
    uint64_t steps; // DIEs that may still be inspected
};

// False: it has none that could be read.
bool as_source_lines_open(struct as_source_lines *l, const struct as_elf *file, const int *roots);
void as_source_lines_close(struct as_source_lines *l);

// Adds the functions at an address, innermost first; adds none where debug information has none. False: AS_NO_MEMORY.
bool as_source_lines_find(struct as_source_lines *l, uint64_t address, as_place_vec *places, struct as_strings *strings,
                          struct as_error *err);
