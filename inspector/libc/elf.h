// SPDX-License-Identifier: MIT
// A small reader of 64-bit little-endian ELF, for files that may lie: every offset, count and size is checked, nothing
// is mapped (a mapped file that shrinks is a SIGBUS), and what is kept is of fixed size. It reads either a file, or,
// where the file cannot be had, the object's own pages in a target's memory.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "target/target.h"

#include <elf.h>

enum { AS_ELF_MAX_LOADS = 32, AS_ELF_NAME_SIZE = 64 };

// A file of more bytes than this is read in part only (string tables, data images): no libc comes near.
#define AS_ELF_MAX_BYTES ((uint64_t)256 << 20)

struct as_elf_load {
    uint64_t vaddr, memsz, offset, filesz;
    uint32_t flags; // PF_*
};

// All addresses are the file's own (before the load bias).
struct as_elf {
    int fd;                   // borrowed; -1: the object is read from `target`
    struct as_target *target; // with fd == -1
    uint64_t base;            // with fd == -1: the load bias in the target
    uint64_t size;            // of the file, bytes
    uint16_t type, machine;   // ET_*, EM_*
    bool has_interp, is_go;
    uint32_t needed_count; // DT_NEEDED entries
    uint32_t load_count;
    struct as_elf_load loads[AS_ELF_MAX_LOADS];
    uint64_t dynamic, dynamic_size;
    uint64_t strtab, strtab_size, symtab, gnu_hash, hash;
    uint64_t rela, rela_size, relr, relr_size;
    uint64_t tls_start, tls_size, tls_align; // PT_TLS; size 0: none
    uint64_t headers_end;    // of the program headers in the file, if they stand right behind the ELF header; else 0
    uint64_t section_offset; // 0: no section headers
    uint32_t section_count, section_names;
    char soname[AS_ELF_NAME_SIZE];
    char build_id[41]; // hex, "" when it has none (of a longer one: the first 20 bytes)
};

// Reads the headers of an ELF file. False and AS_BAD_INPUT (not an ELF file, truncated) or AS_UNSUPPORTED (32-bit,
// big-endian, another machine than x86-64 and aarch64). The caller keeps `fd`, and keeps it open.
bool as_elf_open(struct as_elf *elf, int fd, struct as_error *err);

// The same of a file that may have no program headers, as dwz writes those that several share: its sections and its build-id alone. Not in
// the agent.
bool as_elf_open_sections(struct as_elf *elf, int fd, struct as_error *err);

// The same from the pages of an object that is mapped in a target with its first page at `start`.
bool as_elf_open_mapped(struct as_elf *elf, struct as_target *t, uint64_t start, struct as_error *err);

// Reads exactly `length` bytes at a file offset; always false for a mapped object.
bool as_elf_read_offset(const struct as_elf *elf, uint64_t offset, void *buffer, size_t length);

// Reads exactly `length` bytes at an address of the object, all within one loaded segment; what of the segment is not in
// the file (.bss) reads as zeros.
bool as_elf_read(const struct as_elf *elf, uint64_t address, void *buffer, size_t length);

// The segment that holds [address, address + length), or NULL.
const struct as_elf_load *as_elf_load_at(const struct as_elf *elf, uint64_t address, uint64_t length);

// Finds a symbol that the object itself defines in .dynsym, through its hash table.
bool as_elf_dynamic_symbol(const struct as_elf *elf, const char *name, Elf64_Sym *symbol);
// The symbol of that index in .dynsym.
bool as_elf_dynamic_symbol_at(const struct as_elf *elf, uint64_t index, Elf64_Sym *symbol);

// Finds a section by its name.
bool as_elf_section(const struct as_elf *elf, const char *name, Elf64_Shdr *section);
// The next one of that name behind the section of index *at (at first 0), which becomes its own: an object file may have several.
bool as_elf_section_next(const struct as_elf *elf, const char *name, uint32_t *at, Elf64_Shdr *section);

// Calls `visit` for each symbol of .symtab with its name; stops when that returns false. False: there is no .symtab
// that could be read.
typedef bool as_elf_symbol_visitor(void *context, const char *name, const Elf64_Sym *symbol);
bool as_elf_visit_symtab(const struct as_elf *elf, as_elf_symbol_visitor *visit, void *context);
// The same for .dynsym, of a file: what a stripped object keeps.
bool as_elf_visit_dynsym(const struct as_elf *elf, as_elf_symbol_visitor *visit, void *context);

// The initial contents of an object's writable segments, as one buffer; only ever of a file, never of live memory.
struct as_elf_image {
    uint64_t address; // of bytes.items[0]
    AS_VEC(uint8_t) bytes;
};
bool as_image_load(struct as_elf_image *image, const struct as_elf *elf, struct as_error *err);
void as_image_free(struct as_elf_image *image);

// The bytes of [address, address + length), or NULL when the image does not hold all of them.
const uint8_t *as_image_at(const struct as_elf_image *image, uint64_t address, size_t length);

static inline uint64_t as_load_u64(const void *bytes)
{
    uint64_t value;
    __builtin_memcpy(&value, bytes, sizeof value);
    return value;
}
static inline uint32_t as_load_u32(const void *bytes)
{
    uint32_t value;
    __builtin_memcpy(&value, bytes, sizeof value);
    return value;
}
