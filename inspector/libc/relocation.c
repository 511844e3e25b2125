// SPDX-License-Identifier: MIT
// The relocation signature. main_arena is initialised with .next = &main_arena, so in a position-independent libc one
// relative relocation stands offsetof (struct malloc_state, next) beyond its own addend: the one hit gives the address
// and the layout class. In a program with a fixed address the linker has stored that address itself.
#include "libc/layouts.h"
#include "libc/sources.h"

#include <string.h>

enum { BATCH = 512, RELATIVE_X86_64 = 8, RELATIVE_AARCH64 = 1027, TPOFF_X86_64 = 18, TPREL_AARCH64 = 1030 };

struct relocation_search {
    const struct as_object *object;
    struct as_answer answer; // the last hit
    unsigned hits;
};

// Inspects one word at `place` that will hold, or holds, the address `addend`.
static void consider(struct relocation_search *search, uint64_t place, uint64_t addend)
{
    uint32_t rows = place > addend ? as_layout_rows_with_next(place - addend) : 0;
    if (!rows)
        return;
    struct as_answer found = search->answer;
    if (!as_accept_main_arena(search->object, addend, &found) || !(found.state_rows & rows))
        return;
    found.state_rows &= rows;
    search->answer = found;
    search->hits++;
}

static bool search_rela(struct relocation_search *search)
{
    const struct as_elf *elf = search->object->elf;
    uint32_t relative = elf->machine == EM_X86_64 ? RELATIVE_X86_64 : RELATIVE_AARCH64;
    Elf64_Rela entries[BATCH];
    uint64_t count = elf->rela_size / sizeof *entries;
    for (uint64_t i = 0; i < count; i += BATCH) {
        size_t batch = count - i < BATCH ? (size_t)(count - i) : BATCH;
        if (!as_elf_read(elf, elf->rela + i * sizeof *entries, entries, batch * sizeof *entries))
            return false;
        for (size_t k = 0; k < batch; k++) {
            if (ELF64_R_TYPE(entries[k].r_info) == relative)
                consider(search, entries[k].r_offset, (uint64_t)entries[k].r_addend);
        }
    }
    return true;
}

// A relocated word of RELR, whose addend is in its place: in the image as it is, in memory with the load bias added.
static void consider_place(struct relocation_search *search, uint64_t place)
{
    const struct as_elf *elf = search->object->elf;
    uint64_t word;
    if (elf->fd >= 0) {
        const uint8_t *bytes = as_image_at(&search->object->image, place, sizeof word);
        if (bytes)
            consider(search, place, as_load_u64(bytes));
    } else if (as_elf_read(elf, place, &word, sizeof word) && word >= elf->base) {
        consider(search, place, word - elf->base);
    }
}

// RELR: an even word is the place of one relocation; an odd one is a map of the 63 words that follow.
static void search_relr(struct relocation_search *search)
{
    const struct as_elf *elf = search->object->elf;
    uint64_t entries[BATCH];
    uint64_t count = elf->relr_size / sizeof *entries;
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; i += BATCH) {
        size_t batch = count - i < BATCH ? (size_t)(count - i) : BATCH;
        if (!as_elf_read(elf, elf->relr + i * sizeof *entries, entries, batch * sizeof *entries))
            return;
        for (size_t k = 0; k < batch; k++) {
            if (!(entries[k] & 1)) {
                consider_place(search, entries[k]);
                next = entries[k] + 8;
                continue;
            }
            for (unsigned bit = 1; bit < 64; bit++) {
                if (entries[k] >> bit & 1)
                    consider_place(search, next + (bit - 1) * 8);
            }
            next += 63 * 8;
        }
    }
}

static void search_image(struct relocation_search *search)
{
    const struct as_elf_image *image = &search->object->image;
    for (uint64_t at = -image->address & 7; at + 8 <= image->bytes.count; at += 8)
        consider(search, image->address + at, as_load_u64(image->bytes.items + at));
}

bool as_source_relocation(const struct as_object *object, struct as_answer *answer)
{
    struct relocation_search search = {.object = object, .answer = *answer};
    if (object->elf->type == ET_EXEC) {
        search_image(&search);
    } else {
        search_rela(&search);
        search_relr(&search);
    }
    // More than one hit is no answer: nothing here can tell which of them is malloc's.
    if (search.hits != 1)
        return false;
    *answer = search.answer;
    return true;
}

uint64_t as_tls_block_offset(const struct as_elf *elf, struct as_target *t, uint64_t base)
{
    if (elf->tls_size == 0)
        return AS_UNKNOWN;
    uint64_t align = elf->tls_align ? elf->tls_align : 1;
    if ((align & (align - 1)) || align > 1 << 20 || elf->tls_size > 1 << 30)
        return AS_UNKNOWN;
    if (!elf->has_interp && elf->needed_count == 0 && elf->soname[0] == '\0') {
        // A static program's block is the first: just below the thread pointer on x86-64, and after the two words
        // that belong to ld.so on aarch64.
        uint64_t header = 16;
        return elf->machine == EM_X86_64 ? -((elf->tls_size + align - 1) & ~(align - 1))
                                         : (header + align - 1) & ~(align - 1);
    }
    uint32_t wanted = elf->machine == EM_X86_64 ? TPOFF_X86_64 : TPREL_AARCH64;
    Elf64_Rela entries[BATCH];
    uint64_t count = elf->rela_size / sizeof *entries;
    for (uint64_t i = 0; i < count; i += BATCH) {
        size_t batch = count - i < BATCH ? (size_t)(count - i) : BATCH;
        if (!as_elf_read(elf, elf->rela + i * sizeof *entries, entries, batch * sizeof *entries))
            return AS_UNKNOWN;
        for (size_t k = 0; k < batch; k++) {
            Elf64_Sym symbol = {0};
            uint64_t resolved;
            uint64_t index = ELF64_R_SYM(entries[k].r_info);
            if (ELF64_R_TYPE(entries[k].r_info) != wanted)
                continue;
            // Only of a variable of its own: another object's lies in another block, and one that the program
            // interposes may too.
            if (index != 0 && (!as_elf_dynamic_symbol_at(elf, index, &symbol) || symbol.st_shndx == SHN_UNDEF ||
                               ELF64_ST_BIND(symbol.st_info) != STB_LOCAL))
                continue;
            if (as_target_read_u64(t, base + entries[k].r_offset, &resolved))
                return resolved - symbol.st_value - (uint64_t)entries[k].r_addend;
        }
    }
    return AS_UNKNOWN;
}
