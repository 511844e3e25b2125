// SPDX-License-Identifier: MIT
#include "config.h"

#include "libc/debug_info.h"

#ifdef HAVE_LIBDW

#include "libc/sources.h"

#include <elfutils/libdw.h>
#include <stdio.h>
#include <unistd.h>

static bool open_image(as_byte_vec *image, const struct as_elf *file, uint64_t most, Elf **elf, Dwarf **dwarf,
                       char *why, size_t why_size)
{
    if (file->fd < 0 || !as_dwarf_image_make(image, file, most, why, why_size) || elf_version(EV_CURRENT) == EV_NONE)
        return false;
    *elf = elf_memory((char *)image->items, image->count);
    *dwarf = *elf ? dwarf_begin_elf(*elf, DWARF_C_READ, NULL) : NULL;
    return *dwarf || (snprintf(why, why_size, "libdw cannot read it: %s", dwarf_errmsg(-1)), false);
}

static bool open_shared(struct as_debug_info *d, const struct as_elf *file, uint64_t most, const int *roots, char *why,
                        size_t why_size)
{
    struct as_elf shared;
    int fd = as_debug_file_open_shared(file, roots);
    bool ok = fd >= 0 && as_elf_open(&shared, fd, NULL) &&
              open_image(&d->shared_image, &shared, most, &d->shared_elf, &d->shared, why, why_size);
    if (fd >= 0)
        close(fd);
    else
        snprintf(why, why_size, "the file is not there that it shares with others (.gnu_debugaltlink)");
    if (ok)
        dwarf_setalt(d->dwarf, d->shared);
    return ok;
}

bool as_debug_info_open(struct as_debug_info *d, const struct as_elf *file, uint64_t most, const int *roots, char *why,
                        size_t why_size)
{
    Elf64_Shdr link;
    *d = (struct as_debug_info){0};
    why[0] = '\0';
    if (!open_image(&d->image, file, most, &d->elf, &d->dwarf, why, why_size))
        return false;
    most = d->image.count < most ? most - d->image.count : 0;
    return !roots || !as_elf_section(file, ".gnu_debugaltlink", &link) ||
           open_shared(d, file, most, roots, why, why_size);
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
    as_vec_free(&d->image);
    as_vec_free(&d->shared_image);
    *d = (struct as_debug_info){0};
}

#endif
