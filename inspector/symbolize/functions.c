// SPDX-License-Identifier: MIT
#include "symbolize/functions.h"

#include <stdlib.h>

enum { LONGEST_NAME = 4096, MOST_FUNCTIONS = 1 << 23 };

struct adding {
    struct as_functions *functions;
    struct as_error *err;
    bool failed;
};

static bool add_function(void *context, const char *name, const Elf64_Sym *symbol)
{
    struct adding *a = context;
    unsigned kind = ELF64_ST_TYPE(symbol->st_info);
    if ((kind != STT_FUNC && kind != STT_GNU_IFUNC) || symbol->st_shndx == SHN_UNDEF || name[0] == '\0')
        return true;
    if (a->functions->list.count == MOST_FUNCTIONS)
        return false;
    struct as_function *f = as_vec_add(&a->functions->list, a->err);
    a->failed = !f;
    if (a->failed)
        return false;
    unsigned binding = ELF64_ST_BIND(symbol->st_info);
    uint64_t end = symbol->st_value + symbol->st_size;
    f->start = symbol->st_value;
    f->end = end < f->start ? UINT64_MAX : end;
    f->rank = binding == STB_GLOBAL ? 2 : binding == STB_WEAK;
    f->name = as_strings_add(&a->functions->names, name, LONGEST_NAME);
    return true;
}

bool as_functions_add(struct as_functions *f, const struct as_elf *elf, bool dynamic, struct as_error *err)
{
    struct adding adding = {.functions = f, .err = err};
    if (dynamic)
        as_elf_visit_dynsym(elf, add_function, &adding);
    else
        as_elf_visit_symtab(elf, add_function, &adding);
    return !adding.failed;
}

static int by_address(const void *a, const void *b)
{
    const struct as_function *x = a;
    const struct as_function *y = b;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->name < y->name) - (x->name > y->name); // the first of the table is the last of these
}

void as_functions_sort(struct as_functions *f)
{
    if (f->list.count > 0)
        qsort(f->list.items, f->list.count, sizeof *f->list.items, by_address);
}

const char *as_functions_at(const struct as_functions *f, uint64_t address)
{
    enum { BACK = 64 }; // functions that begin in another one, as .cold parts and aliases of a part do
    size_t behind = AS_PARTITION_POINT(0, f->list.count, i, f->list.items[i].start <= address);
    for (size_t i = behind; i > 0 && behind - i < BACK; i--) {
        const struct as_function *found = &f->list.items[i - 1];
        if (address < found->end || (found->end == found->start && i == behind))
            return as_strings_at(&f->names, found->name);
    }
    return NULL;
}

void as_functions_free(struct as_functions *f)
{
    AS_FREE_VECS(f, list, names);
}
