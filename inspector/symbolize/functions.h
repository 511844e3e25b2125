// SPDX-License-Identifier: MIT
// The functions of an object's symbol tables, by address.
#pragma once

#include "libc/elf.h"

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
