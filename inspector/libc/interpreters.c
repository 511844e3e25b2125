// SPDX-License-Identifier: MIT
#include "libc/interpreters.h"

// Extension modules refer to these names, and so the interpreter defines them. A program that was not compiled as position-independent
// code has a copy of PyType_Type; there is nothing to be found in its variables then, and the library has the name, too.
static const struct {
    const char *name;
    enum as_interpreter_kind kind;
} telling[] = {
    {"_PyRuntime", AS_INTERPRETER_CPYTHON}, // 3.7 on
    {"PyType_Type", AS_INTERPRETER_CPYTHON},
    {"zend_mm_gc", AS_INTERPRETER_PHP},
    {"rb_gc_start", AS_INTERPRETER_RUBY},
};

uint32_t as_interpreters_in(const struct as_elf *elf, bool is_program)
{
    uint32_t kinds = 0;
    Elf64_Sym symbol;
    Elf64_Shdr section;
    for (size_t i = 0; i < sizeof telling / sizeof *telling; i++)
        if (!(kinds & telling[i].kind) && as_elf_dynamic_symbol(elf, telling[i].name, &symbol) && symbol.st_value != 0)
            kinds |= telling[i].kind;
    if (kinds == 0 && is_program && as_elf_section(elf, ".PyRuntime", &section))
        kinds = AS_INTERPRETER_CPYTHON;
    return kinds;
}

void as_interpreters_add(struct as_interpreter_objects *objects, struct as_range at, uint32_t kinds)
{
    if (kinds == 0)
        return;
    if (objects->count == sizeof objects->items / sizeof *objects->items) {
        objects->left_out++;
        return;
    }
    objects->items[objects->count].at = at;
    objects->items[objects->count++].kinds = kinds;
}

uint64_t as_interpreters_first(const struct as_interpreter_objects *objects, enum as_interpreter_kind kind)
{
    for (uint32_t i = 0; i < objects->count; i++)
        if (objects->items[i].kinds & kind)
            return objects->items[i].at.start;
    return 0;
}

bool as_interpreters_have(const struct as_interpreter_objects *objects, enum as_interpreter_kind kind,
                          const struct as_mapping *m)
{
    for (uint32_t i = 0; i < objects->count; i++) {
        struct as_range at = objects->items[i].at;
        if (objects->items[i].kinds & kind && m->start >= at.start && m->start < at.end)
            return as_mapping_of_file(m);
    }
    return false;
}
