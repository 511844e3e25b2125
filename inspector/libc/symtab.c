// SPDX-License-Identifier: MIT
// Names: .symtab of the object itself (a static program, a libc that was not stripped) or of its debug file.
#include "libc/layouts.h"
#include "libc/sources.h"

#include <string.h>

struct names {
    Elf64_Sym main_arena, mp, tcache, thread_arena;
    unsigned main_arenas, mps, tcaches, thread_arenas;
};

static void take_symbol(Elf64_Sym *slot, unsigned *count, const Elf64_Sym *symbol)
{
    *slot = *symbol;
    ++*count;
}

static bool visit(void *context, const char *name, const Elf64_Sym *symbol)
{
    struct names *names = context;
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (type == STT_OBJECT && symbol->st_shndx != SHN_UNDEF) {
        // The size keeps out what another library of a static program may call by the same name.
        if (strcmp(name, "main_arena") == 0 && as_layout_rows_with_state_size(symbol->st_size))
            take_symbol(&names->main_arena, &names->main_arenas, symbol);
        else if (strcmp(name, "mp_") == 0 && symbol->st_size >= 80 && symbol->st_size <= 256)
            take_symbol(&names->mp, &names->mps, symbol);
    } else if (type == STT_TLS && symbol->st_shndx != SHN_UNDEF && symbol->st_size == 8) {
        if (strcmp(name, "tcache") == 0)
            take_symbol(&names->tcache, &names->tcaches, symbol);
        else if (strcmp(name, "thread_arena") == 0)
            take_symbol(&names->thread_arena, &names->thread_arenas, symbol);
    }
    return true;
}

bool as_source_symtab(const struct as_object *object, struct as_answer *answer)
{
    struct names names = {0};
    bool read = as_elf_visit_symtab(object->elf, visit, &names);
    if (names.main_arenas == 0 && object->debug.fd >= 0)
        read = as_elf_visit_symtab(&object->debug, visit, &names);
    if (!read || names.main_arenas != 1)
        return false;
    if (names.tcaches == 1)
        answer->tcache = names.tcache.st_value;
    if (names.thread_arenas == 1)
        answer->thread_arena = names.thread_arena.st_value;
    if (names.mps == 1) {
        const uint8_t *bytes = as_image_at(&object->image, names.mp.st_value, names.mp.st_size);
        answer->mp = names.mp.st_value;
        if (bytes)
            answer->par_rows = as_layout_rows_of_par_image(bytes, names.mp.st_size, &answer->has_tcache);
    }
    if (!as_accept_main_arena(object, names.main_arena.st_value, answer))
        return false;
    answer->state_rows &= as_layout_rows_with_state_size(names.main_arena.st_size);
    return answer->state_rows != 0;
}
