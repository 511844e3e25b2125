// SPDX-License-Identifier: MIT
#include "profile/objects.h"

#include <string.h>

static uintptr_t address_in(uintptr_t bias, uintptr_t value)
{
    return value < bias ? value + bias : value; // glibc adds the bias to most of these entries, but not in the vdso
}

bool as_recorder_read_object(const struct dl_phdr_info *info, struct as_recorder_object *o)
{
    *o = (struct as_recorder_object){
        .bias = info->dlpi_addr, .headers = info->dlpi_phdr, .header_count = info->dlpi_phnum};
    const ElfW(Dyn) *dynamic = NULL;
    for (size_t i = 0; i < o->header_count; i++)
        if (o->headers[i].p_type == PT_DYNAMIC)
            dynamic = (const ElfW(Dyn) *)(o->bias + o->headers[i].p_vaddr);
    for (size_t i = 0; i < o->header_count; i++)
        if (o->headers[i].p_type == PT_GNU_RELRO) {
            o->relro = o->bias + o->headers[i].p_vaddr;
            o->relro_end = o->relro + o->headers[i].p_memsz;
        }
    uintptr_t soname = 0;
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            o->symbols = (const ElfW(Sym) *)address_in(o->bias, value);
            break;
        case DT_STRTAB:
            o->strings = (const char *)address_in(o->bias, value);
            break;
        case DT_GNU_HASH:
            o->hash = (const uint32_t *)address_in(o->bias, value);
            break;
        case DT_RELA:
            o->tables[0] = (const ElfW(Rela) *)address_in(o->bias, value);
            break;
        case DT_RELASZ:
            o->sizes[0] = value;
            break;
        case DT_JMPREL:
            o->tables[1] = (const ElfW(Rela) *)address_in(o->bias, value);
            break;
        case DT_PLTRELSZ:
            o->sizes[1] = value;
            break;
        case DT_SONAME:
            soname = value;
            break;
        default:
            break;
        }
    }
    o->soname = soname && o->strings ? o->strings + soname : "";
    return o->strings && o->symbols;
}

#if defined(__x86_64__)
enum { DATA = R_X86_64_GLOB_DAT, SLOT = R_X86_64_JUMP_SLOT };
#else
enum { DATA = R_AARCH64_GLOB_DAT, SLOT = R_AARCH64_JUMP_SLOT };
#endif

// Whether the slot has an address of memory, whatever the order of relocations: before, that of data has 0, and that of a function an offset in
// the object, as the file has it. (An address of data may be smaller than this: in a program that lies where it was linked to.) It is not
// asked of what may be left without: an absolute or weak symbol, and data that another object defines.
static bool is_done(const struct as_recorder_object *o, const ElfW(Rela) * r, uintptr_t size)
{
    uint64_t type = ELF64_R_TYPE(r->r_info);
    const ElfW(Sym) *s = &o->symbols[ELF64_R_SYM(r->r_info)];
    bool defined = s->st_shndx != SHN_UNDEF && s->st_shndx != SHN_ABS;
    if ((type != DATA || !defined) && (type != SLOT || (!defined && ELF64_ST_BIND(s->st_info) != STB_GLOBAL)))
        return true;
    return __atomic_load_n((const uintptr_t *)(o->bias + r->r_offset), __ATOMIC_RELAXED) >= (type == DATA ? 1 : size);
}

// Of its addresses, as they are in the file.
static uintptr_t end_of(const struct as_recorder_object *o)
{
    uintptr_t end = 0;
    for (size_t i = 0; i < o->header_count; i++)
        if (o->headers[i].p_type == PT_LOAD && o->headers[i].p_vaddr + o->headers[i].p_memsz > end)
            end = o->headers[i].p_vaddr + o->headers[i].p_memsz;
    return end;
}

bool as_recorder_is_unbound(const struct as_recorder_object *o, const ElfW(Rela) * r)
{
    uintptr_t there = __atomic_load_n((const uintptr_t *)(o->bias + r->r_offset), __ATOMIC_RELAXED);
    return ELF64_R_TYPE(r->r_info) == SLOT && there - o->bias < end_of(o);
}

bool as_recorder_is_relocated(const struct as_recorder_object *o)
{
    uintptr_t size = end_of(o);
    if (o->bias < size) // a program that lies where it was linked to: it was relocated before this code
        return true;
    for (size_t t = 0; t < 2; t++)
        for (size_t i = 0; o->tables[t] && i < o->sizes[t] / sizeof *o->tables[t]; i++)
            if (!is_done(o, &o->tables[t][i], size))
                return false;
    return true;
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (uint8_t)*name;
    return hash;
}

const ElfW(Sym) *
    as_recorder_next_symbol(const struct as_recorder_object *o, const char *name, int type, const ElfW(Sym) * before)
{
    uint32_t hash = hash_of(name);
    uint32_t buckets = o->hash[0];
    uint32_t first = o->hash[1];
    const uint32_t *bucket = o->hash + 4 + o->hash[2] * (sizeof(uint64_t) / sizeof(uint32_t));
    const uint32_t *chain = bucket + buckets;
    uint32_t i = buckets ? bucket[hash % buckets] : 0;
    if (before) {
        i = (uint32_t)(before - o->symbols);
        i = chain[i - first] & 1 ? 0 : i + 1;
    }
    for (; i >= first && i != 0; i++) {
        const ElfW(Sym) *s = &o->symbols[i];
        if ((chain[i - first] | 1) == (hash | 1) && s->st_shndx != SHN_UNDEF && ELF64_ST_TYPE(s->st_info) == type &&
            strcmp(o->strings + s->st_name, name) == 0)
            return s;
        if (chain[i - first] & 1)
            break;
    }
    return NULL;
}

const ElfW(Sym) * as_recorder_find_symbol(const struct as_recorder_object *o, const char *name, int type)
{
    return as_recorder_next_symbol(o, name, type, NULL);
}
