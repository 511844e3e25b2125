// SPDX-License-Identifier: MIT
#include "base/sort.h"
#include "graph/owners.h"
#include "libc/sources.h"
#include "target/procfs.h"

#include <string.h>

enum { LONGEST_NAME = 4096 };
static const uint64_t MOST_STEPS = UINT64_C(1)
                                   << 26; // for each object: a symbol table may claim that all symbols lie everywhere

struct naming {
    uint32_t module;
    uint64_t base;
    const uint64_t *addresses;
    size_t count;
    struct as_symbol *out;
    struct as_strings *names;
    uint64_t steps;
    bool any; // symbols were seen
};

// Takes a variable's symbol for all addresses in it. Of several symbols the one that begins last is the nearest; of two that
// begin together, the first.
static bool name(void *context, const char *text, const Elf64_Sym *symbol)
{
    struct naming *n = context;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_shndx == SHN_UNDEF || symbol->st_size == 0)
        return true;
    n->any = true;
    uint64_t start = n->base + symbol->st_value;
    uint32_t stored = 0;
    for (size_t i = as_lower_bound(n->addresses, n->count, start);
         i < n->count && n->addresses[i] - start < symbol->st_size; i++) {
        struct as_symbol *s = &n->out[i];
        if (++n->steps > MOST_STEPS)
            return false;
        if (s->module != n->module || (s->name != 0 && s->start >= start))
            continue;
        if (stored == 0)
            stored = as_strings_add(n->names, text, LONGEST_NAME);
        s->name = stored;
        s->start = start;
    }
    return true;
}

// A stripped object's symbols may be in its debug file.
static void visit_debug_file(const struct as_modules *modules, const struct as_module *module, struct naming *n)
{
    struct as_target *t = modules->target;
    const char *path = as_mapping_path(t, &t->mappings.items[module->first_mapping]);
    AS_CLEANUP_FD int fd = as_debug_file_of(&module->elf, t, path);
    struct as_elf debug;
    if (fd >= 0 && as_elf_open(&debug, fd, NULL))
        as_elf_visit_symtab(&debug, name, n);
}

void as_symbols_find(const struct as_modules *modules, const uint64_t *addresses, size_t count, struct as_symbol *out,
                     struct as_strings *names)
{
    for (size_t i = 0; i < count; i++) {
        if (out[i].module >= modules->list.count || out[i].name != 0 || (i > 0 && out[i].module == out[i - 1].module))
            continue;
        struct as_module module = modules->list.items[out[i].module];
        struct naming n = {.module = out[i].module,
                           .base = module.base,
                           .addresses = addresses,
                           .count = count,
                           .out = out,
                           .names = names};
        if (!as_module_open(modules, &module))
            continue;
        as_elf_visit_symtab(&module.elf, name, &n);
        if (!n.any)
            visit_debug_file(modules, &module, &n);
        if (!n.any)
            as_elf_visit_dynsym(&module.elf, name, &n);
        as_module_close(&module);
    }
}
