// SPDX-License-Identifier: MIT
// Symbols, sections and data of an ELF object.
#include "libc/elf.h"

#include <string.h>

enum { MAX_CHAIN = 4096, SYMBOLS_AT_ONCE = 512, SECTIONS_AT_ONCE = 16 };

bool as_elf_dynamic_symbol_at(const struct as_elf *elf, uint64_t index, Elf64_Sym *symbol)
{
    uint64_t offset;
    uint64_t address;
    return elf->symtab && !__builtin_mul_overflow(index, sizeof *symbol, &offset) &&
           !__builtin_add_overflow(elf->symtab, offset, &address) && as_elf_read(elf, address, symbol, sizeof *symbol);
}

static bool has_name(const struct as_elf *elf, const Elf64_Sym *symbol, const char *name)
{
    char found[AS_ELF_NAME_SIZE];
    size_t length = strlen(name) + 1;
    return length <= sizeof found && symbol->st_name < elf->strtab_size &&
           length <= elf->strtab_size - symbol->st_name &&
           as_elf_read(elf, elf->strtab + symbol->st_name, found, length) && memcmp(found, name, length) == 0;
}

static bool is_defined(const Elf64_Sym *symbol)
{
    return symbol->st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL;
}

// The GNU hash table: a Bloom filter of 64-bit words, buckets, and one chain of hashes beside the symbols.
static bool find_in_gnu_hash(const struct as_elf *elf, const char *name, Elf64_Sym *symbol)
{
    struct {
        uint32_t bucket_count, first_symbol, bloom_count, bloom_shift;
    } header;
    if (!as_elf_read(elf, elf->gnu_hash, &header, sizeof header) || header.bucket_count == 0 || header.bloom_count == 0)
        return false;
    uint32_t hash = 5381;
    for (const char *c = name; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    uint64_t bloom_at = elf->gnu_hash + sizeof header;
    uint64_t word;
    if (!as_elf_read(elf, bloom_at + (hash / 64 % header.bloom_count) * 8, &word, sizeof word))
        return false;
    if (!(word >> (hash % 64) & 1) || !(word >> ((hash >> (header.bloom_shift & 31)) % 64) & 1))
        return false;
    uint64_t buckets_at = bloom_at + header.bloom_count * (uint64_t)8;
    uint64_t chain_at = buckets_at + header.bucket_count * (uint64_t)4;
    uint32_t index;
    if (!as_elf_read(elf, buckets_at + hash % header.bucket_count * 4, &index, sizeof index) ||
        index < header.first_symbol)
        return false;
    for (unsigned steps = 0; steps < MAX_CHAIN; steps++, index++) {
        uint32_t found;
        if (!as_elf_read(elf, chain_at + (uint64_t)(index - header.first_symbol) * 4, &found, sizeof found))
            return false;
        // The lowest bit marks the end of the chain, so hashes are compared without it.
        if ((found | 1) == (hash | 1) && as_elf_dynamic_symbol_at(elf, index, symbol) && is_defined(symbol) &&
            has_name(elf, symbol, name))
            return true;
        if (found & 1)
            return false;
    }
    return false;
}

// The System V hash table, for objects linked with --hash-style=sysv.
static bool find_in_sysv_hash(const struct as_elf *elf, const char *name, Elf64_Sym *symbol)
{
    uint32_t counts[2]; // buckets, chain
    if (!as_elf_read(elf, elf->hash, counts, sizeof counts) || counts[0] == 0)
        return false;
    uint32_t hash = 0;
    for (const char *c = name; *c; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        uint32_t high = hash & 0xf0000000;
        hash = (hash ^ high >> 24) & ~high;
    }
    uint32_t index;
    uint64_t buckets_at = elf->hash + sizeof counts;
    uint64_t chain_at = buckets_at + counts[0] * (uint64_t)4;
    if (!as_elf_read(elf, buckets_at + hash % counts[0] * 4, &index, sizeof index))
        return false;
    for (unsigned steps = 0; index != 0 && index < counts[1] && steps < MAX_CHAIN; steps++) {
        if (as_elf_dynamic_symbol_at(elf, index, symbol) && is_defined(symbol) && has_name(elf, symbol, name))
            return true;
        if (!as_elf_read(elf, chain_at + index * (uint64_t)4, &index, sizeof index))
            return false;
    }
    return false;
}

bool as_elf_dynamic_symbol(const struct as_elf *elf, const char *name, Elf64_Sym *symbol)
{
    if (!elf->symtab || !elf->strtab)
        return false;
    return elf->gnu_hash ? find_in_gnu_hash(elf, name, symbol) : elf->hash && find_in_sysv_hash(elf, name, symbol);
}

static bool read_section_header(const struct as_elf *elf, uint32_t index, Elf64_Shdr *section)
{
    uint64_t offset;
    return index < elf->section_count &&
           !__builtin_add_overflow(elf->section_offset, index * (uint64_t)sizeof *section, &offset) &&
           as_elf_read_offset(elf, offset, section, sizeof *section);
}

bool as_elf_section(const struct as_elf *elf, const char *name, Elf64_Shdr *section)
{
    uint32_t at = 0;
    return as_elf_section_next(elf, name, &at, section);
}

// Headers from this one on: how many were read. Where the table is cut short, one by one.
static uint32_t read_section_headers(const struct as_elf *elf, uint32_t index, Elf64_Shdr sections[SECTIONS_AT_ONCE])
{
    uint32_t left = elf->section_count - index;
    uint32_t count = left < SECTIONS_AT_ONCE ? left : SECTIONS_AT_ONCE;
    uint64_t offset;
    if (!__builtin_add_overflow(elf->section_offset, index * (uint64_t)sizeof *sections, &offset) &&
        as_elf_read_offset(elf, offset, sections, count * sizeof *sections))
        return count;
    return read_section_header(elf, index, sections);
}

// The names of sections: the first of them, which are all of most files.
struct section_names {
    Elf64_Shdr section;
    size_t length;
    char text[2048];
};

static bool read_section_names(const struct as_elf *elf, struct section_names *names)
{
    if (!elf->section_offset || !read_section_header(elf, elf->section_names, &names->section))
        return false;
    names->length = names->section.sh_size < sizeof names->text ? names->section.sh_size : sizeof names->text;
    if (!as_elf_read_offset(elf, names->section.sh_offset, names->text, names->length))
        names->length = 0;
    return true;
}

static bool has_section_name(const struct as_elf *elf, const struct section_names *names, const Elf64_Shdr *section,
                             const char *name, size_t length)
{
    char found[AS_ELF_NAME_SIZE];
    uint64_t at;
    if (section->sh_name >= names->section.sh_size || length > names->section.sh_size - section->sh_name)
        return false;
    if (section->sh_name <= names->length && length <= names->length - section->sh_name)
        return memcmp(names->text + section->sh_name, name, length) == 0;
    return !__builtin_add_overflow(names->section.sh_offset, section->sh_name, &at) &&
           as_elf_read_offset(elf, at, found, length) && memcmp(found, name, length) == 0;
}

bool as_elf_section_next(const struct as_elf *elf, const char *name, uint32_t *at, Elf64_Shdr *section)
{
    struct section_names names;
    Elf64_Shdr read[SECTIONS_AT_ONCE];
    size_t length = strlen(name) + 1;
    if (length > AS_ELF_NAME_SIZE || !read_section_names(elf, &names))
        return false;
    for (uint32_t first = 0, count = 0; ++*at < elf->section_count;) {
        if (*at - first >= count) {
            first = *at;
            count = read_section_headers(elf, first, read);
        }
        if (count == 0)
            return false;
        *section = read[*at - first];
        if (has_section_name(elf, &names, section, name, length))
            return true;
    }
    return false;
}

static bool visit_table(const struct as_elf *elf, const char *name, uint32_t type, as_elf_symbol_visitor *visit,
                        void *context)
{
    Elf64_Shdr table;
    Elf64_Shdr strings;
    if (!as_elf_section(elf, name, &table) || table.sh_type != type || table.sh_entsize != sizeof(Elf64_Sym) ||
        !read_section_header(elf, table.sh_link, &strings))
        return false;
    if (strings.sh_size == 0 || strings.sh_size > AS_ELF_MAX_BYTES || strings.sh_size > elf->size)
        return false;
    AS_VEC(char) names = {0};
    Elf64_Sym symbols[SYMBOLS_AT_ONCE];
    bool read = as_vec_reserve(&names, strings.sh_size + 1, NULL) &&
                as_elf_read_offset(elf, strings.sh_offset, names.items, strings.sh_size);
    uint64_t count = table.sh_size / sizeof *symbols;
    bool more = true;
    for (uint64_t i = 0; read && more && i < count; i += SYMBOLS_AT_ONCE) {
        size_t batch = count - i < SYMBOLS_AT_ONCE ? (size_t)(count - i) : SYMBOLS_AT_ONCE;
        uint64_t at;
        read = !__builtin_add_overflow(table.sh_offset, i * sizeof *symbols, &at) &&
               as_elf_read_offset(elf, at, symbols, batch * sizeof *symbols);
        for (size_t k = 0; read && more && k < batch; k++) {
            // The buffer is one byte longer than the section, and that byte is zero: every name ends.
            if (symbols[k].st_name < strings.sh_size)
                more = visit(context, names.items + symbols[k].st_name, &symbols[k]);
        }
    }
    as_vec_free(&names);
    return read;
}

bool as_elf_visit_symtab(const struct as_elf *elf, as_elf_symbol_visitor *visit, void *context)
{
    return visit_table(elf, ".symtab", SHT_SYMTAB, visit, context);
}

bool as_elf_visit_dynsym(const struct as_elf *elf, as_elf_symbol_visitor *visit, void *context)
{
    return visit_table(elf, ".dynsym", SHT_DYNSYM, visit, context);
}

bool as_image_load(struct as_elf_image *image, const struct as_elf *elf, struct as_error *err)
{
    *image = (struct as_elf_image){0};
    uint64_t start = UINT64_MAX;
    uint64_t end = 0;
    AS_FOR_ITEMS(const struct as_elf_load, load, elf->loads, elf->load_count) {
        if (elf->fd < 0 || !(load->flags & PF_W) || load->filesz == 0)
            continue;
        start = load->vaddr < start ? load->vaddr : start;
        end = load->vaddr + load->filesz > end ? load->vaddr + load->filesz : end;
    }
    if (end == 0)
        return as_fail(err, AS_BAD_INPUT, "the object has no writable data to inspect");
    if (end - start > AS_ELF_MAX_BYTES)
        return as_fail(err, AS_BAD_INPUT, "the object has %llu bytes of writable data: not a libc",
                       (unsigned long long)(end - start));
    if (!as_vec_reserve(&image->bytes, end - start, err))
        return false;
    image->address = start;
    image->bytes.count = end - start;
    AS_FOR_ITEMS(const struct as_elf_load, load, elf->loads, elf->load_count) {
        if ((load->flags & PF_W) && load->filesz &&
            !as_elf_read_offset(elf, load->offset, image->bytes.items + (load->vaddr - start), load->filesz)) {
            as_image_free(image);
            return as_fail(err, AS_BAD_INPUT, "the ELF file is truncated: its data lies beyond its end");
        }
    }
    return true;
}

void as_image_free(struct as_elf_image *image)
{
    as_vec_free(&image->bytes);
}

const uint8_t *as_image_at(const struct as_elf_image *image, uint64_t address, size_t length)
{
    if (address < image->address || address - image->address > image->bytes.count ||
        length > image->bytes.count - (address - image->address))
        return NULL;
    return image->bytes.items + (address - image->address);
}
