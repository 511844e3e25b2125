// SPDX-License-Identifier: MIT
// What typing.c has found, in words.
#include "config.h"
#include "graph/typing.h"

#ifdef HAVE_LIBDW

#include "debuginfo/dwarf_slots.h"
#include "debuginfo/dwarf_types.h"

#include <stdio.h>
#include <string.h>

enum { LONGEST_NAME = 4096 };

bool as_typing_is_bytes(const struct as_typing *y, uint32_t type)
{
    return as_typing_name_is_bytes(&y->types, type);
}

uint32_t as_typing_variable(struct as_typing *y, uint32_t module, uint64_t address, uint64_t *start)
{
    const struct as_dwarf_variable *v = y->of_node ? as_dwarf_variable_at(y->debug, false, module, address) : NULL;
    uint32_t type = v ? as_dwarf_type_of_variable(&y->types, v) : 0;
    if (type == 0 || address - v->address >= y->types.list.items[type].size)
        return 0;
    *start = v->address;
    return type;
}

const char *as_typing_name(const struct as_typing *y, uint32_t type, char *text, size_t size)
{
    return as_dwarf_type_name(&y->types, type, text, size);
}

const char *as_typing_part(struct as_typing *y, uint32_t type, uint64_t offset, char *text, size_t size)
{
    text[0] = '\0';
    return as_dwarf_path(&y->types, type, offset, text, size) ? text : NULL;
}

const char *as_typing_member(struct as_typing *y, uint32_t node, uint64_t offset, char *text, size_t size)
{
    uint32_t state = y->of_node ? y->of_node[node] : 0;
    uint32_t type = state & AS_TYPING_TYPE;
    if (type == 0 || state & AS_TYPING_BLOCKED)
        return NULL;
    const struct as_dwarf_type *of = &y->types.list.items[type];
    bool array = of->kind == AS_DWARF_ARRAY && of->count == 0;
    uint32_t element = array ? of->of : type;
    char part[LONGEST_NAME] = "";
    uint64_t its = y->types.list.items[element].size;
    if (its == 0 || (!array && offset >= its) ||
        !as_dwarf_path(&y->types, element, array ? offset % its : offset, part, sizeof part) ||
        !as_dwarf_type_name(&y->types, type, text, size))
        return NULL;
    size_t length = strlen(text);
    snprintf(text + length, size - length, "%s%s",
             array            ? ""
             : part[0] == '.' ? "::"
                              : "",
             array || part[0] != '.' ? part : part + 1);
    return text;
}

#else

bool as_typing_is_bytes(const struct as_typing *y, uint32_t type)
{
    (void)y;
    return type == 0;
}

const char *as_typing_name(const struct as_typing *y, uint32_t type, char *text, size_t size)
{
    (void)y;
    (void)type;
    (void)text;
    (void)size;
    return NULL;
}

const char *as_typing_member(struct as_typing *y, uint32_t node, uint64_t offset, char *text, size_t size)
{
    (void)offset;
    return as_typing_name(y, node, text, size);
}

uint32_t as_typing_variable(struct as_typing *y, uint32_t module, uint64_t address, uint64_t *start)
{
    (void)y;
    (void)module;
    (void)address;
    (void)start;
    return 0;
}

const char *as_typing_part(struct as_typing *y, uint32_t type, uint64_t offset, char *text, size_t size)
{
    (void)offset;
    return as_typing_name(y, type, text, size);
}

#endif
