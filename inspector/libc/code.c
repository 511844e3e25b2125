// SPDX-License-Identifier: MIT
// Where malloc's own code lies: a thread that is in it may be half-way through a change of the heap.
//
// The exported functions are known by name, the static ones that do the work (_int_malloc, sysmalloc, ...) are not. But
// all come from one object file, which the linker places as one piece: whatever lies between the last function that is
// exported by the object before it, and the last of its own, is taken to be malloc's. (That may be a few hundred bytes
// too many, never too few; measured on glibc 2.31 to 2.44, both architectures.)
#include "libc/sources.h"

#include <string.h>

enum {
    SYMBOLS_AT_ONCE = 256,
    MAX_SYMBOLS = 1 << 16, // libc exports some 3000
    FURTHEST = 128 * 1024, // of static functions before the first exported one; measured: 20 KB at most
};

// What malloc.c and arena.c export, and the function that calls brk for them.
static const char *const own_names[] = {
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "valloc",
    "pvalloc",
    "posix_memalign",
    "malloc_trim",
    "aligned_alloc",
    "mallopt",
    "mallinfo",
    "mallinfo2",
    "malloc_info",
    "malloc_usable_size",
    "free_sized",
    "malloc_stats",
    "cfree",
    "free_aligned_sized",
    "__default_morecore",
};
enum { OWN_NAMES = sizeof own_names / sizeof own_names[0] };

static bool is_function(const Elf64_Sym *symbol)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0;
}

static bool is_own(const char *name)
{
    for (size_t i = 0; i < OWN_NAMES; i++)
        if (strcmp(name, own_names[i]) == 0)
            return true;
    return false;
}

struct range {
    uint64_t start, end;
};

static void widen(struct range *range, const Elf64_Sym *symbol)
{
    uint64_t end;
    if (__builtin_add_overflow(symbol->st_value, symbol->st_size, &end))
        return;
    range->start = range->end == 0 || symbol->st_value < range->start ? symbol->st_value : range->start;
    range->end = end > range->end ? end : range->end;
}

// The end of the last exported function that lies wholly before `range`.
static uint64_t end_of_previous(const struct as_elf *elf, const struct range *range)
{
    // The string table follows the symbols in every linker's output; what lies behind them is not a symbol.
    uint64_t count = elf->strtab > elf->symtab ? (elf->strtab - elf->symtab) / sizeof(Elf64_Sym) : 0;
    count = count < MAX_SYMBOLS ? count : MAX_SYMBOLS;
    uint64_t previous = 0;
    for (uint64_t i = 0; i < count; i += SYMBOLS_AT_ONCE) {
        Elf64_Sym symbols[SYMBOLS_AT_ONCE];
        size_t batch = count - i < SYMBOLS_AT_ONCE ? (size_t)(count - i) : SYMBOLS_AT_ONCE;
        if (!as_elf_read(elf, elf->symtab + i * sizeof *symbols, symbols, batch * sizeof *symbols))
            break;
        for (size_t k = 0; k < batch; k++) {
            uint64_t end;
            if (is_function(&symbols[k]) && !__builtin_add_overflow(symbols[k].st_value, symbols[k].st_size, &end) &&
                end <= range->start && end > previous)
                previous = end;
        }
    }
    return previous;
}

static struct range from_exports(const struct as_elf *elf)
{
    struct range range = {0};
    for (size_t i = 0; i < OWN_NAMES; i++) {
        Elf64_Sym symbol;
        if (as_elf_dynamic_symbol(elf, own_names[i], &symbol) && is_function(&symbol))
            widen(&range, &symbol);
    }
    if (range.end == 0)
        return range;
    uint64_t start = end_of_previous(elf, &range);
    range.start = range.start - start > FURTHEST ? range.start - FURTHEST : start;
    return range;
}

// A static program's names are visited: the symbols of each source file follow the file's own.
struct visit {
    struct range range;
    bool in_file;
};

static bool visit(void *context, const char *name, const Elf64_Sym *symbol)
{
    struct visit *v = context;
    bool local = ELF64_ST_BIND(symbol->st_info) == STB_LOCAL;
    if (ELF64_ST_TYPE(symbol->st_info) == STT_FILE)
        v->in_file = strcmp(name, "malloc.c") == 0;
    else if (is_function(symbol) && (local ? v->in_file : is_own(name)))
        widen(&v->range, symbol);
    return true;
}

void as_code_find(const struct as_elf *elf, uint64_t base, struct as_libc *libc)
{
    libc->malloc_start = libc->malloc_end = libc->code_start = libc->code_end = 0;
    struct range range = from_exports(elf);
    if (range.end == 0 && elf->fd >= 0) {
        struct visit v = {0};
        if (as_elf_visit_symtab(elf, visit, &v))
            range = v.range;
    }
    const struct as_elf_load *load =
        range.end > range.start ? as_elf_load_at(elf, range.start, range.end - range.start) : NULL;
    if (!load || !(load->flags & PF_X))
        return;
    libc->malloc_start = base + range.start;
    libc->malloc_end = base + range.end;
    libc->code_start = base + load->vaddr;
    libc->code_end = base + load->vaddr + load->memsz;
}
