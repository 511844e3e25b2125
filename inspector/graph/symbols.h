// SPDX-License-Identifier: MIT
// The names of addresses in modules' data: the variable that holds a pointer, the vtable of a class.
#pragma once

#include "libc/target_modules.h"

// What lies at an address.
struct as_symbol {
    uint32_t module; // index in the modules; UINT32_MAX: in none
    uint32_t name;   // as the object's symbol table has it, in the strings; 0: there is no symbol
    uint64_t start;  // of the variable; 0 without a name
};

// Names each of `count` addresses, which are ascending; out[i].module says where to read, the rest is filled in. What cannot be
// named is not: an object may be stripped, or its file be gone.
void as_symbols_find(const struct as_modules *modules, const uint64_t *addresses, size_t count, struct as_symbol *out,
                     struct as_strings *names);
