// SPDX-License-Identifier: MIT
// What libdw gets to see of a file that may be hostile: a copy in memory, of the sections alone that it needs, and never more
// of them than the caller allows, packed or unpacked.
//
// A few MB of compressed sections may unpack to a thousand times as much, and libdw believes what they say of their size; those that it
// cannot unpack it leaves out without a word. It would map the file, which may be cut short under its eyes (SIGBUS); and open others that
// the file names (.gnu_debugaltlink, .dwo files), whatever they are. In a copy of our own none of these can happen.
#include "config.h"

#include "libc/debug_info.h"

#ifdef HAVE_LIBDW

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ALIGNMENT = 16, NAMES_BYTES = 512 };

static const char *const wanted[] = {".debug_info",     ".debug_abbrev",      ".debug_aranges", ".debug_str",
                                     ".debug_line_str", ".debug_str_offsets", ".debug_addr",    ".debug_ranges",
                                     ".debug_rnglists", ".debug_types",       ".debug_line"};
// These are wanted of a .dwo file. In the first two each unit may have a section of its own, which the linker joins elsewhere.
static const char *const wanted_split[] = {".debug_info.dwo", ".debug_types.dwo", ".debug_abbrev.dwo", ".debug_str.dwo",
                                           ".debug_str_offsets.dwo"};
enum {
    WANTED = sizeof wanted / sizeof *wanted,
    WITHOUT_LINES = WANTED - 1,
    WANTED_SPLIT = sizeof wanted_split / sizeof *wanted_split,
    JOINED = 2,
    HEADERS = WANTED + 2
}; // the null section's and that of the names

struct making {
    const struct as_elf *elf;
    as_byte_vec *out;
    Elf64_Shdr headers[HEADERS];
    unsigned count;
    char names[NAMES_BYTES];
    uint32_t names_size;
    uint64_t packed, unpacked; // bytes in all
    uint64_t worked;           // those that were read or unpacked, in vain or not: of each section the more of either
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

static bool align(struct making *m)
{
    uint64_t more = (ALIGNMENT - m->out->count % ALIGNMENT) % ALIGNMENT;
    if (more > 0 && !as_vec_reserve(m->out, more, NULL))
        return false;
    for (; more > 0; more--)
        m->out->items[m->out->count++] = 0;
    return true;
}

// Appends these bytes, at a multiple of the alignment. UINT64_MAX: there is no memory.
static uint64_t append_bytes(struct making *m, const void *bytes, uint64_t size)
{
    if (!align(m) || !as_vec_reserve(m->out, size, NULL))
        return UINT64_MAX;
    uint64_t at = m->out->count;
    m->out->count += size;
    memcpy(m->out->items + at, bytes, size);
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

// Appends the bytes of a section, or of a part of one.
static bool add_part(struct making *m, struct as_debug_section *part)
{
    if (!as_debug_section_measure(m->elf, part, m->why, m->why_size))
        return false;
    uint64_t larger = part->size > part->header.sh_size ? part->size : part->header.sh_size;
    if (larger > m->most)
        return too_large(m, larger);
    m->unpacked += part->size;
    m->packed += part->header.sh_size;
    if (m->unpacked > m->most || m->packed > m->most)
        return too_large(m, m->unpacked > m->packed ? m->unpacked : m->packed);
    m->worked += larger;
    return as_debug_section_unpack(m->out, m->elf, part, m->why, m->why_size);
}

// `joined`: all sections of that name become one.
static bool add_section(struct making *m, const char *name, bool joined)
{
    struct as_debug_section part = {0};
    bool any = false;
    if (!align(m))
        return left_out(m, "there is no memory for its debug information");
    uint64_t start = m->out->count;
    while ((joined || !any) && as_debug_section_next(m->elf, name, &part)) {
        if (part.header.sh_type == SHT_NOBITS)
            continue;
        if (!add_part(m, &part))
            return false;
        any = true;
    }
    if (any)
        m->headers[m->count++] = (Elf64_Shdr){.sh_name = add_name(m, name),
                                              .sh_type = SHT_PROGBITS,
                                              .sh_offset = start,
                                              .sh_size = m->out->count - start,
                                              .sh_addralign = 1};
    return true;
}

static bool finish_image(struct making *m)
{
    Elf64_Shdr *names = &m->headers[m->count++];
    *names = (Elf64_Shdr){.sh_name = add_name(m, ".shstrtab"), .sh_type = SHT_STRTAB, .sh_addralign = 1};
    names->sh_size = m->names_size;
    names->sh_offset = append_bytes(m, m->names, m->names_size);
    uint64_t at = append_bytes(m, m->headers, m->count * sizeof *m->headers);
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

static bool begin_image(struct making *m)
{
    static const Elf64_Ehdr room = {0};
    m->why[0] = '\0';
    return append_bytes(m, &room, sizeof room) != UINT64_MAX;
}

// NOLINTBEGIN(readability-non-const-parameter): written through the struct
bool as_dwarf_image_make(as_byte_vec *out, const struct as_elf *elf, uint64_t most, bool lines, uint64_t *bytes,
                         char *why, size_t why_size)
{
    struct making m = {
        .elf = elf, .out = out, .count = 1, .names_size = 1, .most = most, .why = why, .why_size = why_size};
    bool ok = begin_image(&m);
    for (unsigned i = 0; ok && i < (lines ? WANTED : WITHOUT_LINES); i++)
        ok = add_section(&m, wanted[i], false);
    *bytes = m.worked;
    return ok && m.count > 1 && finish_image(&m);
}

bool as_dwarf_image_make_split(as_byte_vec *out, const struct as_elf *elf, uint64_t most, uint64_t *bytes, char *why,
                               size_t why_size)
{
    struct making m = {
        .elf = elf, .out = out, .count = 1, .names_size = 1, .most = most, .why = why, .why_size = why_size};
    bool ok = begin_image(&m);
    for (unsigned i = 0; ok && i < WANTED_SPLIT; i++)
        ok = add_section(&m, wanted_split[i], i < JOINED);
    *bytes = m.worked;
    return ok && m.count > 1 && finish_image(&m);
}
// NOLINTEND(readability-non-const-parameter)

#endif
