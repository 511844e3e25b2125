// SPDX-License-Identifier: MIT
// The functions of an object's symbol tables, by address.
#pragma once

#include "libc/elf.h"

#include <sys/types.h>

struct as_function {
    uint64_t start, end; // end == start: the symbol has no size, and reaches to the next
    uint32_t name;       // offset in names
    uint8_t rank;        // of several at one address the highest counts: global, weak, local
};

struct as_functions {
    AS_VEC(struct as_function) list; // ascending
    struct as_strings names;
};

// Adds those of .symtab, else those of .dynsym; then as_functions_sort. False: AS_NO_MEMORY.
bool as_functions_add(struct as_functions *f, const struct as_elf *elf, bool dynamic, struct as_error *err);
void as_functions_sort(struct as_functions *f);

// The name of the function at an address, or NULL.
const char *as_functions_at(const struct as_functions *f, uint64_t address);
void as_functions_free(struct as_functions *f);

// What a JIT compiler says of its code, in the file that perf reads: /tmp/perf-PID.map.

// Reads lines "START SIZE NAME" (hexadecimal) of a file below `root` that belongs to `owner` and is no link: anybody may write into
// /tmp. Success also if there is none. False: AS_NO_MEMORY.
bool as_perf_map_read(struct as_functions *f, int root, const char *path, uid_t owner, struct as_error *err);
