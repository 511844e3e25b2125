// SPDX-License-Identifier: MIT
// The functions and source lines that debug information has at an address. Nothing in a file is trusted: what libdw sees is a bounded
// copy (libc/debug_info.h), and we descend to a bounded depth.
#pragma once

#include "libc/debug_info.h"
#include "symbolize/place.h"

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
