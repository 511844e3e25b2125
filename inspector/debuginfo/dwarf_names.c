// SPDX-License-Identifier: MIT
#include "debuginfo/dwarf_types.h"

#include <string.h>

enum { DEEPEST = 64 };

struct name_writing {
    char *text;
    size_t size, length;
};

static void put_name_part(struct name_writing *w, const char *part)
{
    size_t room = w->size - w->length - 1;
    size_t length = strnlen(part, room);
    memcpy(w->text + w->length, part, length);
    w->length += length;
    w->text[w->length] = '\0';
}

static void put_scope(struct name_writing *w, const struct as_dwarf_index *x, uint32_t scope)
{
    uint32_t chain[DEEPEST];
    unsigned count = 0;
    for (; scope != 0 && count < DEEPEST; scope = x->scopes.items[scope].parent)
        chain[count++] = scope;
    while (count-- > 0) {
        const char *name = x->scopes.items[chain[count]].name;
        put_name_part(w, name ? name : "(anonymous)");
        put_name_part(w, count > 0 ? "::" : "");
    }
}

const char *as_dwarf_type_name(const struct as_dwarf_types *t, uint32_t type, char *text, size_t size)
{
    struct name_writing w = {.text = text, .size = size};
    char ends[DEEPEST];
    unsigned count = 0;
    text[0] = '\0';
    const struct as_dwarf_type *of = &t->list.items[type];
    for (; count < DEEPEST && (of->kind == AS_DWARF_POINTER || of->kind == AS_DWARF_ARRAY); of = &t->list.items[of->of])
        ends[count++] = of->kind == AS_DWARF_POINTER ? '*' : '[';
    if (count == DEEPEST)
        return NULL;
    if (of->name != 0)
        put_name_part(&w, as_strings_at(&t->names, of->name));
    else if (of->scope != 0 && t->index->scopes.items[of->scope].name)
        put_scope(&w, t->index, of->scope);
    else
        return NULL;
    while (count-- > 0)
        put_name_part(&w, ends[count] == '*' ? "*" : "[]");
    return text;
}
