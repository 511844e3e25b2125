// SPDX-License-Identifier: MIT
#include "config.h"

#include "libc/debug_info.h"

#ifdef HAVE_LIBDW

#include "libc/sources.h"

#include <elfutils/libdw.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool begin_image(const as_byte_vec *image, uint64_t at, Elf **elf, Dwarf **dwarf, char *why, size_t why_size)
{
    if (elf_version(EV_CURRENT) == EV_NONE)
        return false;
    *elf = elf_memory((char *)image->items + at, image->count - at);
    *dwarf = *elf ? dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
    return *dwarf || (snprintf(why, why_size, "libdw cannot read it: %s", dwarf_errmsg(-1)), false);
}

static bool open_image(struct as_debug_info *d, as_byte_vec *image, const struct as_elf *file, uint64_t most,
                       bool lines, Elf **elf, Dwarf **dwarf, char *why, size_t why_size)
{
    uint64_t bytes = 0;
    bool ok = file->fd >= 0 && as_dwarf_image_make(image, file, most, lines, &bytes, why, why_size);
    d->bytes += bytes;
    return ok && begin_image(image, 0, elf, dwarf, why, why_size);
}

static bool open_shared(struct as_debug_info *d, const struct as_elf *file, uint64_t most, const int *roots, char *why,
                        size_t why_size)
{
    struct as_elf shared;
    int fd = as_debug_file_open_shared(file, roots);
    bool ok = fd >= 0 && as_elf_open_sections(&shared, fd, NULL) &&
              open_image(d, &d->shared_image, &shared, most, false, &d->shared_elf, &d->shared, why, why_size);
    if (fd >= 0)
        close(fd);
    else
        snprintf(why, why_size, "the file is not there that it shares with others (.gnu_debugaltlink)");
    if (ok)
        dwarf_setalt(d->dwarf, d->shared);
    return ok;
}

bool as_debug_info_open(struct as_debug_info *d, const struct as_elf *file, uint64_t most, const int *roots, bool lines,
                        char *why, size_t why_size)
{
    Elf64_Shdr link;
    *d = (struct as_debug_info){0};
    why[0] = '\0';
    if (!open_image(d, &d->image, file, most, lines, &d->elf, &d->dwarf, why, why_size))
        return false;
    most = d->bytes < most ? most - d->bytes : 0;
    return !roots || !as_elf_section(file, ".gnu_debugaltlink", &link) ||
           open_shared(d, file, most, roots, why, why_size);
}

bool as_debug_info_open_split(struct as_debug_info *d, const struct as_elf *file, uint64_t most, char *why,
                              size_t why_size)
{
    *d = (struct as_debug_info){0};
    bool ok = as_dwarf_image_make_split(&d->image, file, most, &d->bytes, why, why_size);
    return ok && begin_image(&d->image, 0, &d->elf, &d->dwarf, why, why_size);
}

bool as_debug_info_open_packed(struct as_debug_info *d, const as_byte_vec *image, const struct as_debug_files *files,
                               uint32_t which)
{
    char why[128];
    *d = (struct as_debug_info){0};
    return begin_image(image, (uint64_t)which * files->step, &d->elf, &d->dwarf, why, sizeof why);
}

const uint8_t *as_debug_info_section(const struct as_debug_info *d, const char *name, uint64_t *size)
{
    size_t names;
    *size = 0;
    if (elf_getshdrstrndx(d->elf, &names) != 0)
        return NULL;
    for (Elf_Scn *section = NULL; (section = elf_nextscn(d->elf, section)) != NULL;) {
        const Elf64_Shdr *header = elf64_getshdr(section);
        const char *its = header ? elf_strptr(d->elf, names, header->sh_name) : NULL;
        const Elf_Data *data = its && strcmp(its, name) == 0 ? elf_getdata(section, NULL) : NULL;
        if (!data)
            continue;
        *size = data->d_size;
        return data->d_buf;
    }
    return NULL;
}

void as_debug_info_close(struct as_debug_info *d)
{
    if (d->dwarf)
        dwarf_end(d->dwarf);
    if (d->shared)
        dwarf_end(d->shared);
    if (d->elf)
        elf_end(d->elf);
    if (d->shared_elf)
        elf_end(d->shared_elf);
    AS_FREE_VECS(d, image, shared_image);
    *d = (struct as_debug_info){0};
}

#endif
