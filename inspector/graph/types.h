// SPDX-License-Identifier: MIT
// The type of a chunk: one number for what the kinds of evidence say of it, the strongest first.
#pragma once

#include "graph/graph.h"
#include "graph/owners.h"

// What a type's name rests on. In the order of strength.
enum as_evidence_kind {
    AS_EVIDENCE_NONE,
    AS_EVIDENCE_SHAPE,
    AS_EVIDENCE_PATTERN,
    AS_EVIDENCE_DWARF,
    AS_EVIDENCE_VTABLE,
    AS_EVIDENCE_OBJECT,
    AS_EVIDENCE_CLASS,
    AS_EVIDENCE_MAPPING,
    AS_EVIDENCE_KINDS
};

enum {
    AS_FIRST_SHAPE_TYPE = AS_PATTERNS,
    AS_FIRST_VTABLE_TYPE = AS_FIRST_SHAPE_TYPE + AS_SHAPES,
    AS_FIRST_OBJECT_TYPE = AS_FIRST_VTABLE_TYPE + AS_MOST_VTABLES + 1,
    AS_MAPPING_TYPE = AS_FIRST_OBJECT_TYPE, // [0] of a runtime's types is none
    AS_FIRST_DWARF_TYPE = AS_FIRST_OBJECT_TYPE + AS_MOST_OBJECT_TYPES
};

// The type of a node: 0: not known; a pattern's number; behind the patterns a shape's; behind these the index of a vtable, then of a
// runtime's type, and then the number of a type of debug information.
static inline uint32_t as_graph_type(const struct as_graph *g, uint32_t node)
{
    uint32_t object = as_object_of(&g->objects, node);
    if (as_index_is_mapped(&g->index, node))
        return AS_MAPPING_TYPE;
    if (object != 0)
        return AS_FIRST_OBJECT_TYPE + object;
    uint32_t index = as_vtable_of(&g->vtables, node);
    const struct as_vtable *vtable = &g->vtables.list.items[index];
    uint32_t pattern = as_pattern_of(&g->patterns, node), dwarf = as_typing_of(&g->typing, node);
    enum as_shape shape = as_pattern_shape(&g->patterns, node);
    if (vtable->proven && (vtable->name != 0 || dwarf == 0))
        return AS_FIRST_VTABLE_TYPE + index;
    // A pattern says more than that there are bytes.
    bool more = pattern != AS_PATTERN_NONE && pattern != AS_PATTERN_ARRAY; // than that it is bytes
    if (dwarf != 0 && !(more && as_typing_is_bytes(&g->typing, dwarf)))
        return AS_FIRST_DWARF_TYPE + dwarf;
    return pattern != AS_PATTERN_NONE || shape == AS_SHAPE_NONE ? pattern : (uint32_t)AS_FIRST_SHAPE_TYPE + shape;
}

// The name of a type, demangled; NULL: it has none. `text` has room for `size` bytes, and may be returned. Unsafe for a terminal: it is
// a target's.
const char *as_graph_type_name(const struct as_graph *g, uint32_t type, char *text, size_t size);
// The name of the type that a variable has, by debug information; NULL: not known. As above.
const char *as_graph_variable_type(struct as_graph *g, const struct as_owner *o, char *text, size_t size);
// AS_EVIDENCE_NONE for a type without a name.
enum as_evidence_kind as_graph_type_evidence(const struct as_graph *g, uint32_t type);
// "shape", "pattern", "dwarf", "vtable", "ob_type" (Python), "class" (Ruby), "mapping"; NULL for AS_EVIDENCE_NONE.
const char *as_evidence_name(enum as_evidence_kind kind);
