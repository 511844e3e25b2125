// SPDX-License-Identifier: MIT
#include "runtimes/elf_object.h"

#include <string.h>

static bool is_named(const struct as_target *t, const struct as_mapping *m, const char *prefix)
{
    const char *path = as_mapping_path(t, m);
    const char *slash = strrchr(path, '/');
    return as_mapping_of_file(m) && m->offset == 0 && slash && strncmp(slash + 1, prefix, strlen(prefix)) == 0;
}

bool as_runtime_object_mapped(const struct as_target *t, const char *prefix)
{
    for (size_t i = 0; i < t->mappings.count; i++)
        if (is_named(t, &t->mappings.items[i], prefix))
            return true;
    return false;
}

static bool open_at(struct as_runtime_object *o, struct as_target *t, size_t mapping)
{
    const struct as_mapping *m = &t->mappings.items[mapping];
    *o = (struct as_runtime_object){.modules.target = t};
    o->module = (struct as_module){.first_mapping = (uint32_t)mapping, .start = m->start, .end = m->end, .elf.fd = -1};
    return as_module_open_first(&o->modules, &o->module);
}

bool as_runtime_object_open(struct as_runtime_object *o, struct as_target *t, const char *prefix)
{
    for (size_t i = 0; i < t->mappings.count; i++)
        if (is_named(t, &t->mappings.items[i], prefix) && open_at(o, t, i))
            return true;
    return false;
}

void as_runtime_object_close(struct as_runtime_object *o)
{
    as_module_close(&o->module);
}

uint64_t as_runtime_symbol(const struct as_runtime_object *o, const char *name)
{
    Elf64_Sym symbol;
    return as_elf_dynamic_symbol(&o->module.elf, name, &symbol) ? o->module.base + symbol.st_value : 0;
}

bool as_runtime_constant(const struct as_runtime_object *o, uint64_t address, char *text, size_t size)
{
    struct as_target *t = o->modules.target;
    for (size_t wanted = size; wanted > 0; wanted /= 2) { // less where the segment ends
        if (as_elf_read(&o->module.elf, address - o->module.base, text, wanted) ||
            as_target_read(t, address, text, wanted))
            return memchr(text, 0, wanted) != NULL;
    }
    return false;
}
