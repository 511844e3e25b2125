// SPDX-License-Identifier: MIT
// The types of chunks by debug information: from variables with a name, and objects whose class a vtable names, along pointers.
//
// A type that a pointer has by its declaration may be wrong for what it leads to: the pointer may be left over, or its type a base of the
// object's. So a type must fit the chunk's size, a chunk to which two pointers give different types gets none, and what may be a
// larger class that begins with this one has no name.
#pragma once

#include "debuginfo/dwarf_files.h"
#include "debuginfo/dwarf_types.h"
#include "graph/edges.h"
#include "graph/roots.h"
#include "graph/tls.h"
#include "graph/typing_rules.h"
#include "graph/vtables.h"

// What it works on.
struct as_typing_input {
    const struct as_index *index;
    const struct as_edges *edges;
    const struct as_roots *roots;
    const struct as_tls *tls;
    const struct as_vtables *vtables;
    const struct as_patterns *patterns;
    struct as_dwarf_files *files;
    // The nodes whose types are wanted: where it is not 0. No other node and no variable leads to these: only lost chunks lead to lost
    // ones. NULL: all.
    const uint8_t *only;
};

// All zero is that of a target without debug information.
struct as_typing {
    struct as_dwarf_index *debug; // the input's; NULL: there is none
    struct as_dwarf_types types;
    uint32_t *of_node; // state of each node (typing_rules.h); NULL: no type is known
    uint32_t nodes;
    // Pointers that a limit left out: farther behind a chunk's beginning than an edge says, or too many in all.
    uint64_t unfollowed;
};

// Finds them. The target may run on. False: AS_NO_MEMORY. Free it in either case.
bool as_typing_find(struct as_typing *y, const struct as_typing_input *in, struct as_error *err);
void as_typing_free(struct as_typing *y);

// The type of a node, in y->types; 0: not known.
static inline uint32_t as_typing_of(const struct as_typing *y, uint32_t node)
{
    uint32_t state = y->of_node ? y->of_node[node] : 0;
    return state & (AS_TYPING_UNNAMED | AS_TYPING_BLOCKED) ? 0 : state & AS_TYPING_TYPE;
}
// Does a type say no more than that it is bytes?
bool as_typing_is_bytes(const struct as_typing *y, uint32_t type);

// The name of a type; NULL: it has none. Unsafe for a terminal: it is a target's.
const char *as_typing_name(const struct as_typing *y, uint32_t type, char *text, size_t size);
// The member of a node's chunk that the word at `offset` is: "Cache::entries[].value"; NULL: not known.
const char *as_typing_member(struct as_typing *y, uint32_t node, uint64_t offset, char *text, size_t size);
// The type of the variable in which an address of a module's data lies; 0: not known. *start: where the variable begins.
uint32_t as_typing_variable(struct as_typing *y, uint32_t module, uint64_t address, uint64_t *start);
// The member of a variable that the word at `offset` is: ".entries[].value", "" for all of it; NULL: not known.
const char *as_typing_part(struct as_typing *y, uint32_t type, uint64_t offset, char *text, size_t size);
