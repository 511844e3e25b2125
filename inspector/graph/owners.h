// SPDX-License-Identifier: MIT
// Who owns the chunks that roots lead to: a variable with a name, a thread's stack, a mapping.
#pragma once

#include "graph/roots.h"
#include "libc/target_modules.h"

// The names of addresses in modules' data: the variable that holds a pointer, the vtable of a class.

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

// An owner: the roots from `first` on lie in it.
struct as_owner {
    uint32_t source;       // index in the roots' sources
    uint32_t first, count; // in the roots' list
    uint64_t address;      // of the variable, or of the word that has no symbol; of others where the source begins
    uint32_t name;         // the variable's, in `names`; 0: it has none
    bool united;           // it is the interpreter of a language (interpreter_roots.h)
};

struct as_owners {
    AS_VEC(struct as_owner) list; // in the order of the roots
    struct as_strings names;
};

// Divides the roots among owners. Free the owners in either case. False: AS_NO_MEMORY.
bool as_owners_find(struct as_owners *o, const struct as_roots *r, struct as_error *err);
// The index of the owner that has the root of that index.
uint32_t as_owner_of(const struct as_owners *o, uint32_t root);
// Who an owner is, as JSON and dumps have it: as_root_kind_name, or "interpreter".
const char *as_owner_kind_name(const struct as_owner *o, const struct as_roots *r);
// Is an owner's address one of a target's?
bool as_owner_has_address(const struct as_owner *o, const struct as_roots *r);
void as_owners_free(struct as_owners *o);
