// SPDX-License-Identifier: MIT
// What debug information has, by name and by address: definitions of types, variables, and which class derives from which. One
// pass over all units of a module; types themselves are read when somebody asks for them (dwarf_types.h).
//
// A unit may be a skeleton: the rest of it is in a .dwo file (dwarf_split.h). A unit may be for one type alone, to which others refer by a
// signature of 64 bits.
#pragma once

#include "base/number_map.h"
#include "base/vec.h"
#include "libc/debug_info.h"

#include <stdatomic.h>

// A DIE, as libdw finds it again.
struct as_die {
    void *address, *unit;
};

enum as_scope_kind { AS_SCOPE_SPACE, AS_SCOPE_AGGREGATE, AS_SCOPE_UNION };

// A namespace, a function, or a struct, class or union.
struct as_scope {
    uint64_t hash;    // of its name with all that it lies in; 0: it has no name
    uint64_t size;    // of a struct; bytes
    const char *name; // its own; NULL: none
    struct as_die die;
    uint32_t parent; // index; 0: it lies in nothing
    uint32_t shape;  // a hash of its size and its members' names
    uint8_t kind;    // as_scope_kind
    bool declared;   // only declared here
};

struct as_dwarf_variable {
    uint64_t address;  // in the target; of a thread's own (`local`) the offset in its module's block
    struct as_die die; // where its type is
    uint32_t module;
    bool local; // each thread has its own
};

// A class and one that begins with it: the derived class may be what a pointer to the base leads to.
struct as_derivation {
    uint64_t base, derived, size; // hashes of the names; the derived class's bytes
};

// The scopes of one section: their DIEs' addresses ascend.
struct as_scope_run {
    uint32_t first, end;
    const void *start; // the first DIE, once the index is finished
};

// The same with the base not yet looked up.
struct as_derivation_of {
    const void *base;   // NULL: it has a unit of its own
    uint64_t signature; // of this unit
    uint32_t derived;   // scope
};

// A declaration whose name only the unit of its type has.
struct as_declared_elsewhere {
    uint64_t signature; // of this unit
    uint32_t scope;
};

// A unit of which only this is in the module. The strings are in the module's debug information.
struct as_dwarf_skeleton {
    const char *folder, *name; // where the compiler worked, and the .dwo file that it wrote
    uint64_t id;               // of the unit, in both files
    uint64_t addresses;        // where its part of .debug_addr begins
    bool found;                // the rest has been read
};

// A module with skeletons.
struct as_dwarf_module {
    const struct as_debug_info *info;
    uint64_t base;
    uint64_t tls_start, tls_size; // of its threads' own variables, as the file has them
    uint32_t module;
};

struct as_dwarf_index {
    AS_VEC(struct as_scope) scopes; // [0] is not used
    AS_VEC(struct as_scope_run) runs;
    AS_VEC(struct as_dwarf_variable) variables;   // by address, once finished
    AS_VEC(struct as_derivation) derivations;     // by base, once finished
    AS_VEC(struct as_derivation_of) unsettled;    // until then
    AS_VEC(struct as_declared_elsewhere) unnamed; // likewise
    AS_VEC(struct as_dwarf_skeleton) skeletons;   // of the module that was added last
    AS_VEC(struct as_die) signed_types;           // [0] is not used
    struct as_number_map by_signature;            // → signed_types
    struct as_number_map by_unit;                 // the id → the skeleton, plus 1
    struct as_number_map by_name;  // hash → the first definition; of another unit's, if that is the same
    struct as_number_map by_shape; // hash and shape likewise
    struct as_number_map twofold;  // hashes of names with definitions that differ
    uint64_t dies;                 // inspected so far
    uint32_t units;                // that have been inspected, of all files
    bool cut;                      // there was more than is read
    atomic_bool stopped;           // as_dwarf_index_stop
};

// Reads all units of a module. False: AS_NO_MEMORY. Free the index in either case.
bool as_dwarf_index_add(struct as_dwarf_index *x, const struct as_debug_info *info, uint32_t module, uint64_t base,
                        struct as_error *err);
// The same of a .dwo file: of its units only those of which the module that was added last, `of`, has skeletons, and which no other file
// had. *taken: there are any; else the index refers to nothing in the file.
bool as_dwarf_index_add_split(struct as_dwarf_index *x, const struct as_debug_info *split,
                              const struct as_dwarf_module *of, bool *taken, struct as_error *err);
// Has another thread that is reading a module end soon.
void as_dwarf_index_stop(struct as_dwarf_index *x);
bool as_dwarf_index_is_stopped(const struct as_dwarf_index *x);
// After the last module.
bool as_dwarf_index_finish(struct as_dwarf_index *x, struct as_error *err);
void as_dwarf_index_free(struct as_dwarf_index *x);

// The scope that a DIE is; 0: none.
uint32_t as_dwarf_scope_of(const struct as_dwarf_index *x, const void *die);
// The one definition that stands for all that are the same as this scope; of a declaration, the definition of that name, if all that
// there are agree. 0: none.
uint32_t as_dwarf_definition(const struct as_dwarf_index *x, uint32_t scope);
// The definition of that qualified name ("app::Cache"); 0: there is none, or several that differ.
uint32_t as_dwarf_find(const struct as_dwarf_index *x, const char *name);
// The variable with the highest address that is not above this one; NULL: there is none.
const struct as_dwarf_variable *as_dwarf_variable_at(const struct as_dwarf_index *x, bool local, uint32_t module,
                                                     uint64_t address);
// Is there a class that begins with that of this hash, and is larger than `least` bytes, but at most `most`?
bool as_dwarf_is_base(const struct as_dwarf_index *x, uint64_t hash, uint64_t least, uint64_t most);
