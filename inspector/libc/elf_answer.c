// SPDX-License-Identifier: MIT
// Asks the sources about one ELF object and makes one answer of what each says.
#include "config.h"

#include "libc/layouts.h"
#include "libc/sources.h"

#include <unistd.h>

bool as_object_open(struct as_object *object, const struct as_elf *elf, const int *roots, const char *path,
                    struct as_error *err)
{
    *object = (struct as_object){.elf = elf, .debug.fd = -1};
    struct as_error reason;
    // Without an image, of an object that has no data or is cut short, the sources have less to go by.
    if (elf->fd >= 0 && !as_image_load(&object->image, elf, &reason) && reason.code == AS_NO_MEMORY)
        return as_fail(err, AS_NO_MEMORY, "%s", reason.text);
    int fd = as_debug_file_open(elf, roots, path);
    if (fd >= 0 && !as_elf_open(&object->debug, fd, NULL)) {
        close(fd);
        object->debug.fd = -1;
    }
    return true;
}

void as_object_close(struct as_object *object)
{
    if (object->debug.fd >= 0)
        close(object->debug.fd);
    object->debug.fd = -1;
    as_image_free(&object->image);
}

bool as_image_find_par(const struct as_elf_image *image, struct as_answer *answer)
{
    unsigned hits = 0;
    for (uint64_t at = -image->address & 7; at < image->bytes.count; at += 8) {
        bool has_tcache;
        uint32_t rows = as_layout_rows_of_par_image(image->bytes.items + at, image->bytes.count - at, &has_tcache);
        if (!rows)
            continue;
        answer->mp = image->address + at;
        answer->par_rows = rows;
        answer->has_tcache = has_tcache;
        hits++;
    }
    if (hits == 1)
        return true;
    answer->mp = AS_UNKNOWN;
    answer->par_rows = 0;
    return false;
}

bool as_object_ask(struct as_object *object, enum as_layout_source source, struct as_answer *answer)
{
    *answer = (struct as_answer){.source = source,
                                 .main_arena = AS_UNKNOWN,
                                 .mp = AS_UNKNOWN,
                                 .tcache = AS_UNKNOWN,
                                 .thread_arena = AS_UNKNOWN,
                                 .has_tcache = true};
    bool found = false;
    switch (source) {
    case AS_LAYOUT_DWARF:
#ifdef HAVE_LIBDW
        found = as_source_dwarf(object, answer);
#endif
        break;
    case AS_LAYOUT_SYMTAB:
        found = as_source_symtab(object, answer);
        break;
    case AS_LAYOUT_RELOCATION:
        found = as_source_relocation(object, answer);
        break;
    case AS_LAYOUT_DECODE:
        found = as_source_decode(object, answer);
        break;
    case AS_LAYOUT_SCAN: // inspects live memory, not at files
    case AS_LAYOUT_NONE:
        break;
    }
    if (!found)
        return false;
    // No source but names and DWARF knows mp_: its initial values are as good as a name.
    if (answer->mp == AS_UNKNOWN)
        as_image_find_par(&object->image, answer);
    as_object_compose(as_object_banner(object), NULL, 0, answer);
    return true;
}
