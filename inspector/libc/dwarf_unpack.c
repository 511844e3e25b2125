// SPDX-License-Identifier: MIT
// Unpacks the sections of debug information, through libelf, of which no more is asked than one section of a size that was checked before.
#include "config.h"

#include "libc/debug_info.h"

#ifdef HAVE_LIBDW

#include <libelf.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { ZLIB_HEADER = 12, HEADERS = 2 }; // the null section's and the section's

// What libelf gets to see of a section that is packed: an ELF file with this section alone. The packed bytes follow.
struct alone {
    Elf64_Ehdr elf;
    Elf64_Shdr sections[HEADERS];
    Elf64_Chdr packing;
};

bool as_debug_section_next(const struct as_elf *elf, const char *name, struct as_debug_section *s)
{
    if (!s->older) {
        snprintf(s->name, sizeof s->name, "%s", name);
        if (as_elf_section_next(elf, s->name, &s->index, &s->header))
            return true;
        snprintf(s->name, sizeof s->name, ".z%s", name + 1);
        s->older = true;
        s->index = 0;
    }
    return as_elf_section_next(elf, s->name, &s->index, &s->header);
}

static bool refuse_unpack(char *why, size_t why_size, const char *reason)
{
    snprintf(why, why_size, "%s", reason);
    return false;
}

bool as_debug_section_measure(const struct as_elf *elf, struct as_debug_section *s, char *why, size_t why_size)
{
    const Elf64_Shdr *header = &s->header;
    uint8_t older[ZLIB_HEADER];
    Elf64_Chdr packing = {.ch_type = ELFCOMPRESS_ZLIB};
    s->packing = 0;
    s->skip = 0;
    s->size = header->sh_size;
    if (header->sh_flags & SHF_COMPRESSED) {
        s->skip = sizeof packing;
        if (header->sh_size < sizeof packing || !as_elf_read_offset(elf, header->sh_offset, &packing, sizeof packing))
            return refuse_unpack(why, why_size, "its debug information is truncated");
        s->size = packing.ch_size;
        s->packing = packing.ch_type;
    } else if (s->older) {
        s->skip = sizeof older;
        if (header->sh_size < sizeof older || !as_elf_read_offset(elf, header->sh_offset, older, sizeof older) ||
            memcmp(older, "ZLIB", 4) != 0)
            return refuse_unpack(why, why_size, "its debug information is compressed in an unknown way");
        s->size = 0;
        for (size_t i = 4; i < sizeof older; i++)
            s->size = s->size << 8 | older[i];
        s->packing = ELFCOMPRESS_ZLIB;
    }
    return true;
}

// Makes the file with the section alone.
static bool make_alone(as_byte_vec *file, const struct as_elf *elf, const struct as_debug_section *s)
{
    uint64_t bytes = s->header.sh_size - s->skip;
    const struct alone alone = {
        .elf = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                .e_type = ET_REL,
                .e_machine = elf->machine,
                .e_version = EV_CURRENT,
                .e_shoff = offsetof(struct alone, sections),
                .e_ehsize = sizeof(Elf64_Ehdr),
                .e_shentsize = sizeof(Elf64_Shdr),
                .e_shnum = HEADERS},
        .sections[1] = {.sh_type = SHT_PROGBITS,
                        .sh_flags = SHF_COMPRESSED,
                        .sh_offset = offsetof(struct alone, packing),
                        .sh_size = sizeof(Elf64_Chdr) + bytes,
                        .sh_addralign = _Alignof(Elf64_Chdr)},
        .packing = {.ch_type = s->packing, .ch_size = s->size, .ch_addralign = 1},
    };
    if (!as_vec_reserve(file, sizeof alone + bytes, NULL))
        return false;
    memcpy(file->items, &alone, sizeof alone);
    file->count = sizeof alone + bytes;
    return as_elf_read_offset(elf, s->header.sh_offset + s->skip, file->items + sizeof alone, bytes);
}

// Has libelf unpack the section of the file. It believes no other size than the section's own.
static bool unpack_alone(const as_byte_vec *file, uint8_t *to, uint64_t size)
{
    Elf *elf = elf_version(EV_CURRENT) == EV_NONE ? NULL : elf_memory((char *)file->items, file->count);
    Elf_Scn *section = elf ? elf_getscn(elf, 1) : NULL;
    const Elf_Data *data = section && elf_compress(section, 0, 0) >= 0 ? elf_getdata(section, NULL) : NULL;
    bool ok = data && data->d_buf && data->d_size == size;
    if (ok)
        memcpy(to, data->d_buf, size);
    if (elf)
        elf_end(elf);
    return ok;
}

bool as_debug_section_unpack(as_byte_vec *out, const struct as_elf *elf, const struct as_debug_section *s, char *why,
                             size_t why_size)
{
    as_byte_vec file = {0};
    if (s->size == 0)
        return true;
    if (!as_vec_reserve(out, s->size, NULL))
        return refuse_unpack(why, why_size, "there is no memory for its debug information");
    uint8_t *to = out->items + out->count;
    bool there =
        s->packing == 0 ? as_elf_read_offset(elf, s->header.sh_offset, to, s->size) : make_alone(&file, elf, s);
    bool ok = there && (s->packing == 0 || unpack_alone(&file, to, s->size));
    as_vec_free(&file);
    out->count += ok ? s->size : 0;
    if (!ok)
        refuse_unpack(why, why_size,
                      there ? "its debug information is compressed in an unknown way, or damaged"
                            : "its debug information is truncated, or there is no memory for it");
    return ok;
}

#endif
