// SPDX-License-Identifier: MIT
#include "graph/types.h"
#include "debuginfo/demangle.h"
#include "graph/shapes.h"

const char *as_graph_type_name(const struct as_graph *g, uint32_t type, char *text, size_t size)
{
    if (type < AS_PATTERNS)
        return as_pattern_name((enum as_pattern)type);
    if (type < AS_FIRST_VTABLE_TYPE)
        return as_shape_name((enum as_shape)(type - AS_FIRST_SHAPE_TYPE));
    if (type >= AS_FIRST_DWARF_TYPE)
        return as_typing_name(&g->typing, type - AS_FIRST_DWARF_TYPE, text, size);
    if (type == AS_MAPPING_TYPE)
        return "anonymous mapping";
    if (type >= AS_FIRST_OBJECT_TYPE)
        return as_strings_at(&g->objects.names, g->objects.types.items[type - AS_FIRST_OBJECT_TYPE].name);
    const struct as_vtable *v = &g->vtables.list.items[type - AS_FIRST_VTABLE_TYPE];
    if (v->name == 0)
        return NULL;
    if (v->plain)
        return as_strings_at(&g->vtables.names, v->name);
    return as_name_demangled(as_strings_at(&g->vtables.names, v->name), true, text, size);
}

const char *as_graph_variable_type(struct as_graph *g, const struct as_owner *o, char *text, size_t size)
{
    const struct as_root_source *source = &g->roots.sources.items[o->source];
    uint64_t start;
    uint32_t type = !o->united && source->kind == AS_ROOT_GLOBAL && source->module != UINT32_MAX
                        ? as_typing_variable(&g->typing, source->module, o->address, &start)
                        : 0;
    return type != 0 ? as_typing_name(&g->typing, type, text, size) : NULL;
}

enum as_evidence_kind as_graph_type_evidence(const struct as_graph *g, uint32_t type)
{
    if (type < AS_PATTERNS)
        return type == AS_PATTERN_NONE ? AS_EVIDENCE_NONE : AS_EVIDENCE_PATTERN;
    if (type < AS_FIRST_VTABLE_TYPE)
        return AS_EVIDENCE_SHAPE;
    if (type >= AS_FIRST_DWARF_TYPE)
        return AS_EVIDENCE_DWARF;
    if (type == AS_MAPPING_TYPE)
        return AS_EVIDENCE_MAPPING;
    if (type >= AS_FIRST_OBJECT_TYPE)
        return g->objects.evidence == AS_OBJECTS_OF_RUBY ? AS_EVIDENCE_CLASS : AS_EVIDENCE_OBJECT;
    return g->vtables.list.items[type - AS_FIRST_VTABLE_TYPE].name == 0 ? AS_EVIDENCE_NONE : AS_EVIDENCE_VTABLE;
}

const char *as_evidence_name(enum as_evidence_kind kind)
{
    static const char *const names[AS_EVIDENCE_KINDS] = {
        [AS_EVIDENCE_SHAPE] = "shape",     [AS_EVIDENCE_PATTERN] = "pattern", [AS_EVIDENCE_DWARF] = "dwarf",
        [AS_EVIDENCE_VTABLE] = "vtable",   [AS_EVIDENCE_OBJECT] = "ob_type",  [AS_EVIDENCE_CLASS] = "class",
        [AS_EVIDENCE_MAPPING] = "mapping",
    };
    return names[kind];
}
