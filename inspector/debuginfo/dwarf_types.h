// SPDX-License-Identifier: MIT
// Types of debug information as the graph needs them: where in a type the pointers are, and to what. Each type is one number, however
// many units describe it. Types are read when somebody asks for them.
#pragma once

#include "debuginfo/dwarf_index.h"

enum as_dwarf_kind {
    AS_DWARF_NONE, // void, a function, or not known
    AS_DWARF_BASE,
    AS_DWARF_POINTER,
    AS_DWARF_AGGREGATE,
    AS_DWARF_UNION,
    AS_DWARF_ARRAY,
};

struct as_dwarf_member {
    uint32_t name; // in the types' names; 0: it has none, or is a base
    uint32_t type;
    uint64_t offset; // bytes
    bool base;       // a base class
    bool variant;    // one of several that lie in the same place
};

struct as_dwarf_type {
    uint64_t size, count; // bytes; elements of an array
    struct as_die die;    // of a struct or union: where its members are
    uint32_t of;          // what a pointer leads to, or an array has
    uint32_t name;        // in the types' names: of a base type, or by its typedef; 0: none
    uint32_t scope;       // of a struct or union
    uint32_t first, members;
    uint32_t parameter; // of a template: its first type; 0: none
    uint32_t slots;     // where its slots begin, plus 1; 0: not known yet
    uint8_t kind;       // as_dwarf_kind
    bool loaded;        // its members have been read
    bool flexible;      // it ends in an array without a length
    bool virtual;       // it begins with the address of a vtable
    bool node;          // of a container, which its neighbours know by its base class alone
    bool real;          // a base type of floating point
};

struct as_dwarf_types {
    struct as_dwarf_index *index;
    AS_VEC(struct as_dwarf_type) list; // [0]: not known; [1]: void
    AS_VEC(struct as_dwarf_member) members;
    AS_VEC(uint32_t) slots;
    struct as_strings names;
    struct as_number_map by_die, by_shape, composed;
    uint64_t loads; // DIEs that were inspected for members
    unsigned depth; // of the load that is going on
};

// Free them in either case.
bool as_dwarf_types_open(struct as_dwarf_types *t, struct as_dwarf_index *index, struct as_error *err);
void as_dwarf_types_free(struct as_dwarf_types *t);

// The type that a variable, or the qualified name of a class, has; 0: not known.
uint32_t as_dwarf_type_of_variable(struct as_dwarf_types *t, const struct as_dwarf_variable *v);
uint32_t as_dwarf_type_named(struct as_dwarf_types *t, const char *name);

// An array of so many elements of a type; 0: there is no room.
uint32_t as_dwarf_array_of(struct as_dwarf_types *t, uint32_t type, uint64_t count);
// Reads a type's members, and what follows from them (flexible, virtual).
struct as_dwarf_type *as_dwarf_load(struct as_dwarf_types *t, uint32_t type);

// The names of types, as a programmer writes them.

// The name of a type ("app::Session*"); NULL: it has none. Cut at `size` bytes. Unsafe for a terminal: it is a target's.
const char *as_dwarf_type_name(const struct as_dwarf_types *t, uint32_t type, char *text, size_t size);
