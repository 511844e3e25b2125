// SPDX-License-Identifier: MIT
// ELF headers, the dynamic section and notes.
#include "libc/elf.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_PROGRAM_HEADERS = 256, MAX_DYNAMIC = 1024, MAX_NOTES = 64 * 1024, BUILD_ID_BYTES = 20 };

static void read_notes(struct as_elf *elf, uint64_t address, uint64_t size, uint64_t align)
{
    uint8_t notes[1024];
    align = align == 8 ? 8 : 4;
    for (uint64_t at = 0; size <= MAX_NOTES && at < size && size - at >= sizeof(Elf64_Nhdr);) {
        Elf64_Nhdr note;
        if (!as_elf_read(elf, address + at, &note, sizeof note))
            return;
        uint64_t name_size = (note.n_namesz + align - 1) & ~(align - 1);
        uint64_t whole = sizeof note + name_size + ((note.n_descsz + align - 1) & ~(align - 1));
        uint64_t have = whole < sizeof notes ? whole : sizeof notes;
        if (have > size - at)
            have = size - at;
        if (!as_elf_read(elf, address + at, notes, (size_t)have))
            return;
        const uint8_t *name = notes + sizeof note;
        if (have >= sizeof note + 4 && note.n_namesz == 4) {
            // The Go linker names its own note "Go"; type 4 is the build's id.
            if (memcmp(name, "Go\0", 4) == 0)
                elf->is_go = true;
            if (memcmp(name, "GNU", 4) == 0 && note.n_type == NT_GNU_BUILD_ID && have >= sizeof note + name_size) {
                size_t bytes = have - sizeof note - name_size;
                if (bytes > note.n_descsz)
                    bytes = note.n_descsz;
                if (bytes > BUILD_ID_BYTES)
                    bytes = BUILD_ID_BYTES;
                for (size_t i = 0; i < bytes; i++)
                    snprintf(elf->build_id + 2 * i, 3, "%02x", name[name_size + i]);
            }
        }
        at += whole;
    }
}

// The address that a d_ptr means. ld.so adds the load bias to those of a loaded object in place (unless its .dynamic is
// read-only), so in memory either form is met.
static uint64_t dynamic_address(const struct as_elf *elf, uint64_t value)
{
    return elf->fd < 0 && value >= elf->base ? value - elf->base : value;
}

static void read_dynamic(struct as_elf *elf)
{
    uint64_t soname = 0;
    bool has_soname = false;
    for (uint64_t i = 0; i < elf->dynamic_size / sizeof(Elf64_Dyn) && i < MAX_DYNAMIC; i += 16) {
        Elf64_Dyn entries[16];
        uint64_t left = elf->dynamic_size / sizeof(Elf64_Dyn) - i;
        size_t count = left < 16 ? (size_t)left : 16;
        if (!as_elf_read(elf, elf->dynamic + i * sizeof(Elf64_Dyn), entries, count * sizeof(Elf64_Dyn)))
            return;
        for (size_t k = 0; k < count; k++) {
            uint64_t value = entries[k].d_un.d_val;
            switch (entries[k].d_tag) {
            case DT_NULL:
                i = MAX_DYNAMIC;
                k = count;
                break;
            case DT_NEEDED:
                elf->needed_count++;
                break;
            case DT_SONAME:
                soname = value;
                has_soname = true;
                break;
            case DT_STRTAB:
                elf->strtab = dynamic_address(elf, value);
                break;
            case DT_STRSZ:
                elf->strtab_size = value;
                break;
            case DT_SYMTAB:
                elf->symtab = dynamic_address(elf, value);
                break;
            case DT_GNU_HASH:
                elf->gnu_hash = dynamic_address(elf, value);
                break;
            case DT_HASH:
                elf->hash = dynamic_address(elf, value);
                break;
            case DT_RELA:
                elf->rela = dynamic_address(elf, value);
                break;
            case DT_RELASZ:
                elf->rela_size = value;
                break;
            case 36: // DT_RELR, DT_RELRSZ: younger than some <elf.h>
                elf->relr = dynamic_address(elf, value);
                break;
            case 35:
                elf->relr_size = value;
                break;
            default:
                break;
            }
        }
    }
    if (has_soname && soname < elf->strtab_size) {
        uint64_t left = elf->strtab_size - soname;
        size_t length = left < AS_ELF_NAME_SIZE - 1 ? (size_t)left : AS_ELF_NAME_SIZE - 1;
        if (!as_elf_read(elf, elf->strtab + soname, elf->soname, length))
            elf->soname[0] = '\0';
    }
}

// One program header; false when it is one that no honest linker writes.
static bool take_header(struct as_elf *elf, const Elf64_Phdr *header)
{
    uint64_t end;
    if (__builtin_add_overflow(header->p_vaddr, header->p_memsz, &end) ||
        __builtin_add_overflow(header->p_offset, header->p_filesz, &end))
        return false;
    if (header->p_type == PT_LOAD) {
        if (header->p_filesz > header->p_memsz || elf->load_count == AS_ELF_MAX_LOADS)
            return false;
        elf->loads[elf->load_count++] = (struct as_elf_load){.vaddr = header->p_vaddr,
                                                             .memsz = header->p_memsz,
                                                             .offset = header->p_offset,
                                                             .filesz = header->p_filesz,
                                                             .flags = header->p_flags};
    } else if (header->p_type == PT_DYNAMIC) {
        elf->dynamic = header->p_vaddr;
        elf->dynamic_size = header->p_memsz;
    } else if (header->p_type == PT_INTERP) {
        elf->has_interp = true;
    } else if (header->p_type == PT_TLS) {
        elf->tls_start = header->p_vaddr;
        elf->tls_size = header->p_memsz;
        elf->tls_align = header->p_align;
    }
    return true;
}

// What follows once the ELF header is read; `read_headers` reads the program headers from wherever they are.
static bool take_headers(struct as_elf *elf, const Elf64_Ehdr *header, const Elf64_Phdr *headers, struct as_error *err)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (!take_header(elf, &headers[i]))
            return as_fail(err, AS_BAD_INPUT, "program header %u of the ELF file has a wrong size", i);
    }
    return true;
}

static bool take_ident(struct as_elf *elf, const Elf64_Ehdr *header, struct as_error *err)
{
    if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return as_fail(err, AS_BAD_INPUT, "not an ELF file");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB)
        return as_fail(err, AS_UNSUPPORTED, "a 32-bit or big-endian ELF file: only 64-bit little-endian is supported");
    if (header->e_machine != EM_X86_64 && header->e_machine != EM_AARCH64)
        return as_fail(err, AS_UNSUPPORTED, "an ELF file for machine %u: only x86-64 and aarch64 are supported",
                       header->e_machine);
    elf->type = header->e_type;
    elf->machine = header->e_machine;
    return true;
}

static bool take_ehdr(struct as_elf *elf, const Elf64_Ehdr *header, struct as_error *err)
{
    if (!take_ident(elf, header, err))
        return false;
    if (header->e_phnum == 0 || header->e_phnum > MAX_PROGRAM_HEADERS || header->e_phentsize != sizeof(Elf64_Phdr))
        return as_fail(err, AS_BAD_INPUT, "an ELF file with %u program headers of %u bytes", header->e_phnum,
                       header->e_phentsize);
    return true;
}

static void take_notes_and_dynamic(struct as_elf *elf, const Elf64_Phdr *headers, unsigned count)
{
    uint64_t left = MAX_NOTES; // of all together
    for (unsigned i = 0; i < count; i++) {
        if (headers[i].p_type != PT_NOTE || headers[i].p_filesz > left)
            continue;
        left -= headers[i].p_filesz;
        read_notes(elf, headers[i].p_vaddr, headers[i].p_filesz, headers[i].p_align);
    }
    if (elf->dynamic_size)
        read_dynamic(elf);
}

static bool open_header(struct as_elf *elf, int fd, Elf64_Ehdr *header, struct as_error *err)
{
    *elf = (struct as_elf){.fd = fd};
    struct stat status;
    if (fstat(fd, &status) != 0)
        return as_fail_errno(err, AS_BAD_INPUT, "the ELF file cannot be read");
    if (!S_ISREG(status.st_mode))
        return as_fail(err, AS_BAD_INPUT, "not an ELF file (not a regular file)");
    elf->size = (uint64_t)status.st_size;
    return as_elf_read_offset(elf, 0, header, sizeof *header) ||
           as_fail(err, AS_BAD_INPUT, "not an ELF file (%llu bytes)", (unsigned long long)elf->size);
}

static void take_sections(struct as_elf *elf, const Elf64_Ehdr *header)
{
    if (header->e_shentsize == sizeof(Elf64_Shdr)) {
        elf->section_offset = header->e_shoff;
        elf->section_count = header->e_shnum;
        elf->section_names = header->e_shstrndx;
    }
}

#ifndef AS_AGENT
bool as_elf_open_sections(struct as_elf *elf, int fd, struct as_error *err)
{
    Elf64_Ehdr header = {0};
    Elf64_Shdr notes;
    if (!open_header(elf, fd, &header, err) || !take_ident(elf, &header, err))
        return false;
    take_sections(elf, &header);
    if (as_elf_section(elf, ".note.gnu.build-id", &notes)) {
        // For as long as its notes are read.
        elf->loads[elf->load_count++] =
            (struct as_elf_load){.memsz = notes.sh_size, .offset = notes.sh_offset, .filesz = notes.sh_size};
        read_notes(elf, 0, notes.sh_size, notes.sh_addralign);
        elf->load_count = 0;
    }
    return true;
}
#endif

bool as_elf_open(struct as_elf *elf, int fd, struct as_error *err)
{
    Elf64_Ehdr header = {0};
    Elf64_Phdr headers[MAX_PROGRAM_HEADERS];
    if (!open_header(elf, fd, &header, err))
        return false;
    if (!take_ehdr(elf, &header, err))
        return false;
    if (!as_elf_read_offset(elf, header.e_phoff, headers, header.e_phnum * sizeof *headers))
        return as_fail(err, AS_BAD_INPUT, "the ELF file is truncated: its program headers lie beyond its end");
    if (!take_headers(elf, &header, headers, err))
        return false;
    if (header.e_phoff == sizeof header)
        elf->headers_end = sizeof header + header.e_phnum * sizeof *headers;
    take_sections(elf, &header);
    take_notes_and_dynamic(elf, headers, header.e_phnum);
    return true;
}

bool as_elf_open_mapped(struct as_elf *elf, struct as_target *t, uint64_t start, struct as_error *err)
{
    *elf = (struct as_elf){.fd = -1, .target = t};
    Elf64_Ehdr header;
    Elf64_Phdr headers[MAX_PROGRAM_HEADERS];
    if (!as_target_read(t, start, &header, sizeof header))
        return as_fail(err, AS_BAD_INPUT, "the first page of the object at 0x%llx cannot be read",
                       (unsigned long long)start);
    if (!take_ehdr(elf, &header, err))
        return false;
    if (header.e_phoff > t->page_size ||
        !as_target_read(t, start + header.e_phoff, headers, header.e_phnum * sizeof *headers))
        return as_fail(err, AS_BAD_INPUT, "the program headers of the object at 0x%llx cannot be read",
                       (unsigned long long)start);
    if (!take_headers(elf, &header, headers, err))
        return false;
    for (uint32_t i = 0; i < elf->load_count; i++) {
        if (elf->loads[i].offset / t->page_size == 0) {
            elf->base = start - elf->loads[i].vaddr / t->page_size * t->page_size;
            take_notes_and_dynamic(elf, headers, header.e_phnum);
            return true;
        }
    }
    return as_fail(err, AS_BAD_INPUT, "no segment of the object at 0x%llx holds its header", (unsigned long long)start);
}
