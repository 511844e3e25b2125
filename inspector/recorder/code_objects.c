// SPDX-License-Identifier: MIT
#include "recorder/code_objects.h"

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
enum { SLOT = R_X86_64_JUMP_SLOT };
#else
enum { SLOT = R_AARCH64_JUMP_SLOT };
#endif

// Returns where the object's addresses end, as they are in the file.
static uintptr_t end_of(const struct as_recorder_object *o)
{
    uintptr_t end = 0;
    for (size_t i = 0; i < o->header_count; i++)
        if (o->headers[i].p_type == PT_LOAD && o->headers[i].p_vaddr + o->headers[i].p_memsz > end)
            end = o->headers[i].p_vaddr + o->headers[i].p_memsz;
    return end;
}

void as_recorder_find_ends(const struct as_recorder_object *o, uintptr_t *start, uintptr_t *size)
{
    uintptr_t first = UINTPTR_MAX;
    for (size_t i = 0; i < o->header_count; i++)
        if (o->headers[i].p_type == PT_LOAD && o->headers[i].p_vaddr < first)
            first = o->headers[i].p_vaddr;
    *start = o->bias + first;
    *size = end_of(o) - first;
}

bool as_recorder_is_unbound(const struct as_recorder_object *o, const ElfW(Rela) * r)
{
    uintptr_t there = __atomic_load_n((const uintptr_t *)(o->bias + r->r_offset), __ATOMIC_RELAXED);
    return ELF64_R_TYPE(r->r_info) == SLOT && there - o->bias < end_of(o);
}

bool as_recorder_is_loader(const struct as_recorder_object *o)
{
    return strncmp(o->soname, "ld-linux", 8) == 0;
}

bool as_recorder_has_variable(const struct as_recorder_object *o, uintptr_t address, uintptr_t size)
{
    bool writable = false;
    for (size_t i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *h = &o->headers[i];
        uintptr_t start = o->bias + h->p_vaddr, end = start + h->p_memsz;
        bool inside = address >= start && address < end && size <= end - address;
        if (h->p_type == PT_GNU_RELRO && inside)
            return false;
        writable |= h->p_type == PT_LOAD && inside && (h->p_flags & PF_W);
    }
    return writable;
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
