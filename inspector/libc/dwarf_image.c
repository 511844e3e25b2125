// SPDX-License-Identifier: MIT
// What libdw gets to see of a file that may be hostile: a copy in memory, of the sections alone that it needs, and never more
// of them than the caller allows, packed or unpacked.
//
// A few MB of compressed sections may unpack to a thousand times as much, and libdw believes what they say of their size. It
// would map the file, which may be cut short under its eyes (SIGBUS); and open others that the file names (.gnu_debugaltlink,
// .dwo files), whatever they are. In a copy of our own none of these can happen.
#include "config.h"

#include "libc/debug_info.h"

#ifdef HAVE_LIBDW

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, ZLIB_HEADER = 12, NAMES_BYTES = 512 };

static const char *const wanted[] = {".debug_info",     ".debug_abbrev",      ".debug_aranges", ".debug_str",
                                     ".debug_line_str", ".debug_str_offsets", ".debug_addr",    ".debug_ranges",
                                     ".debug_rnglists", ".debug_types"};
enum { WANTED = sizeof wanted / sizeof *wanted, HEADERS = WANTED + 2 }; // the null section's and that of the names

struct making {
    const struct as_elf *elf;
    as_byte_vec *out;
    Elf64_Shdr headers[HEADERS];
    unsigned count;
    char names[NAMES_BYTES];
    uint32_t names_size;
    uint64_t packed, unpacked; // bytes in all
    uint64_t most;             // of either
    char *why;
    size_t why_size;
};

static bool left_out(struct making *m, const char *why)
{
    snprintf(m->why, m->why_size, "%s", why);
    return false;
}

static bool too_large(struct making *m, uint64_t bytes)
{
    snprintf(m->why, m->why_size, "its debug information has %.1f MiB unpacked, and at most %u MiB are read",
             (double)bytes / 1048576, (unsigned)(m->most >> 20));
    return false;
}

// As ".zdebug_info", GNU's older way to say that it is packed: "ZLIB", and the size big-endian.
static bool find(const struct as_elf *elf, const char *name, char found[32], Elf64_Shdr *section)
{
    snprintf(found, 32, "%s", name);
    if (as_elf_section(elf, found, section))
        return true;
    snprintf(found, 32, ".z%s", name + 1);
    return as_elf_section(elf, found, section);
}

// How large a section is once it is unpacked, by its own word, to which libdw holds it.
static bool unpacked_size(struct making *m, const char *name, const Elf64_Shdr *section, uint64_t *size)
{
    *size = section->sh_size;
    if (section->sh_flags & SHF_COMPRESSED) {
        Elf64_Chdr header;
        if (section->sh_size < sizeof header || !as_elf_read_offset(m->elf, section->sh_offset, &header, sizeof header))
            return left_out(m, "its debug information is truncated");
        *size = header.ch_size;
    } else if (name[1] == 'z') {
        uint8_t header[ZLIB_HEADER];
        if (section->sh_size < sizeof header ||
            !as_elf_read_offset(m->elf, section->sh_offset, header, sizeof header) || memcmp(header, "ZLIB", 4) != 0)
            return left_out(m, "its debug information is compressed in an unknown way");
        *size = 0;
        for (size_t i = 4; i < sizeof header; i++)
            *size = *size << 8 | header[i];
    }
    return true;
}

// Appends `size` bytes, those given or else the file's from `offset` on, at a multiple of the alignment. UINT64_MAX: they are not there.
static uint64_t append(struct making *m, const void *bytes, uint64_t offset, uint64_t size)
{
    uint64_t at = (m->out->count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (!as_vec_reserve(m->out, at + size - m->out->count, NULL))
        return UINT64_MAX;
    memset(m->out->items + m->out->count, 0, at - m->out->count);
    m->out->count = at + size;
    if (bytes)
        memcpy(m->out->items + at, bytes, size);
    else if (!as_elf_read_offset(m->elf, offset, m->out->items + at, size))
        return UINT64_MAX;
    return at;
}

static uint32_t add_name(struct making *m, const char *name)
{
    uint32_t at = m->names_size;
    size_t length = strlen(name) + 1;
    memcpy(m->names + at, name, length);
    m->names_size += (uint32_t)length;
    return at;
}

static bool add_section(struct making *m, const char *name)
{
    char found[32];
    Elf64_Shdr section;
    uint64_t size;
    if (!find(m->elf, name, found, &section) || section.sh_type == SHT_NOBITS)
        return true;
    if (!unpacked_size(m, found, &section, &size))
        return false;
    if (size > m->most || section.sh_size > m->most)
        return too_large(m, size > section.sh_size ? size : section.sh_size);
    m->unpacked += size;
    m->packed += section.sh_size;
    if (m->unpacked > m->most || m->packed > m->most)
        return too_large(m, m->unpacked > m->packed ? m->unpacked : m->packed);
    uint64_t at = append(m, NULL, section.sh_offset, section.sh_size);
    if (at == UINT64_MAX)
        return left_out(m, "its debug information is truncated, or there is no memory for it");
    bool packed = section.sh_flags & SHF_COMPRESSED;
    m->headers[m->count++] = (Elf64_Shdr){
        .sh_name = add_name(m, found),
        .sh_type = SHT_PROGBITS,
        .sh_flags = packed ? SHF_COMPRESSED : 0,
        .sh_offset = at,
        .sh_size = section.sh_size,
        .sh_addralign = packed ? _Alignof(Elf64_Chdr) : 1,
    };
    return true;
}

static bool finish(struct making *m)
{
    Elf64_Shdr *names = &m->headers[m->count++];
    *names = (Elf64_Shdr){.sh_name = add_name(m, ".shstrtab"), .sh_type = SHT_STRTAB, .sh_addralign = 1};
    names->sh_size = m->names_size;
    names->sh_offset = append(m, m->names, 0, m->names_size);
    uint64_t at = append(m, m->headers, 0, m->count * sizeof *m->headers);
    if (names->sh_offset == UINT64_MAX || at == UINT64_MAX)
        return left_out(m, "there is no memory for its debug information");
    const Elf64_Ehdr header = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_EXEC, // whatever it is: nothing here is to be relocated
        .e_machine = m->elf->machine,
        .e_version = EV_CURRENT,
        .e_shoff = at,
        .e_ehsize = sizeof header,
        .e_shentsize = sizeof *m->headers,
        .e_shnum = (Elf64_Half)m->count,
        .e_shstrndx = (Elf64_Half)(m->count - 1),
    };
    memcpy(m->out->items, &header, sizeof header);
    return true;
}

bool as_dwarf_image_make(as_byte_vec *out, const struct as_elf *elf, uint64_t most, char *why, size_t why_size)
{
    static const Elf64_Ehdr room = {0};
    struct making m = {
        .elf = elf, .out = out, .count = 1, .names_size = 1, .most = most, .why = why, .why_size = why_size};
    why[0] = '\0';
    bool ok = append(&m, &room, 0, sizeof room) != UINT64_MAX;
    for (unsigned i = 0; ok && i < WANTED; i++)
        ok = add_section(&m, wanted[i]);
    return ok && m.count > 1 && finish(&m);
}

#endif
