// SPDX-License-Identifier: MIT
// What the dynamic section of a loaded object says: its symbols and relocations. For the recorder, and for
// signals that the agent gets.
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct as_recorder_object {
    uintptr_t bias;
    const ElfW(Phdr) * headers;
    size_t header_count;
    const ElfW(Sym) * symbols;
    const char *strings;
    const uint32_t *hash;
    const ElfW(Rela) * tables[2];
    size_t sizes[2]; // bytes
    const char *soname;
    uintptr_t relro, relro_end; // pages that the loader protects once it has written them
};

// False: it has no symbols.
bool as_recorder_read_object(const struct dl_phdr_info *info, struct as_recorder_object *o);
// ld.so. In the list of objects, those before it were there when the process started, and nobody unloads them; of those behind it this is
// not known.
bool as_recorder_is_loader(const struct as_recorder_object *o);
// From its first segment to its last.
void as_recorder_find_ends(const struct as_recorder_object *o, uintptr_t *start, uintptr_t *size);
// Whether so many bytes are variables of the object's, which stay writable after its relocation.
bool as_recorder_has_variable(const struct as_recorder_object *o, uintptr_t address, uintptr_t size);
// Whether a slot of a function has the address of the object's own code that binds it, by the first call.
bool as_recorder_is_unbound(const struct as_recorder_object *o, const ElfW(Rela) * r);
// A symbol that the object, which must have a hash table, defines; NULL: it has none of that name and type (STT_*).
const ElfW(Sym) * as_recorder_find_symbol(const struct as_recorder_object *o, const char *name, int type);
// The next one of this name and type, of another version; `before` NULL: the first.
const ElfW(Sym) *
    as_recorder_next_symbol(const struct as_recorder_object *o, const char *name, int type, const ElfW(Sym) * before);
