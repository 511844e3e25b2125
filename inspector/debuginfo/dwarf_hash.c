// SPDX-License-Identifier: MIT
#include "debuginfo/dwarf_hash.h"

enum { DEEPEST = 64 }; // of scopes in each other

uint64_t as_dwarf_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * AS_HASH_PRIME;
    return hash;
}

uint64_t as_dwarf_hash(uint64_t parent, const char *name)
{
    uint64_t hash = as_dwarf_hash_text(parent == 0 ? AS_FIRST_HASH : as_dwarf_hash_text(parent, "::"), name);
    return hash != 0 ? hash : 1;
}

uint64_t as_dwarf_qualified_hash(const struct as_dwarf_index *x, uint32_t scope)
{
    const char *names[DEEPEST];
    unsigned count = 0;
    uint64_t hash = 0;
    for (; scope != 0; scope = x->scopes.items[scope].parent) {
        if (count == DEEPEST || !x->scopes.items[scope].name)
            return 0;
        names[count++] = x->scopes.items[scope].name;
    }
    while (count > 0)
        hash = as_dwarf_hash(hash, names[--count]);
    return hash;
}
