// SPDX-License-Identifier: MIT
// The first object in ld.so's search order that exports malloc answers it, whatever else is mapped. Which allocator that
// object is, its name and its other functions say.
#include "libc/allocators.h"
#include "libc/sources.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool begins_with_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static void __attribute__((format(printf, 3, 4)))
decide(struct as_malloc *out, enum as_malloc_kind kind, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    out->kind = kind;
    vsnprintf(out->detail, sizeof out->detail, format, args);
    va_end(args);
}

bool as_module_is_malloc_debug(const struct as_module *module)
{
    return begins_with_prefix(module->elf.soname, "libc_malloc_debug.so");
}

static bool is_glibc(const struct as_modules *modules, const struct as_module *module)
{
    const char *name = as_module_name(modules, module);
    if (module->elf.soname[0])
        return strcmp(module->elf.soname, "libc.so.6") == 0;
    // Only the file's name is left of an object whose strings are in neither a file nor a core.
    return !module->has_file && (begins_with_prefix(name, "libc.so.6") || begins_with_prefix(name, "libc-2."));
}

// musl's libc is its own program interpreter, has no DT_SONAME, and is called libc.so or by a name that says musl.
static bool is_musl(const struct as_modules *modules, const struct as_module *module)
{
    const char *name = as_module_name(modules, module);
    return begins_with_prefix(module->elf.soname, "libc.musl-") || begins_with_prefix(name, "ld-musl-") ||
           begins_with_prefix(name, "libc.musl-") ||
           (strcmp(name, "libc.so") == 0 && module->defines_malloc && module->elf.needed_count == 0);
}

static bool is_static_program(const struct as_module *module)
{
    return module->is_program && !module->elf.has_interp && module->elf.needed_count == 0;
}

bool as_module_may_be_libc(const struct as_modules *modules, const struct as_module *module)
{
    if (is_musl(modules, module))
        return false;
    return is_glibc(modules, module) || as_module_is_malloc_debug(module) || is_static_program(module);
}

static enum as_malloc_kind kind_of(const struct as_modules *modules, const struct as_module *module)
{
    const char *name = module->elf.soname[0] ? module->elf.soname : as_module_name(modules, module);
    if (is_glibc(modules, module) || as_module_is_malloc_debug(module))
        return AS_MALLOC_GLIBC;
    if (is_musl(modules, module))
        return AS_MALLOC_MUSL;
    if (module->is_asan || begins_with_prefix(name, "libasan") || begins_with_prefix(name, "libclang_rt.asan"))
        return AS_MALLOC_ASAN;
    if (module->is_jemalloc || begins_with_prefix(name, "libjemalloc"))
        return AS_MALLOC_JEMALLOC;
    if (module->is_tcmalloc || begins_with_prefix(name, "libtcmalloc"))
        return AS_MALLOC_TCMALLOC;
    if (module->is_mimalloc || begins_with_prefix(name, "libmimalloc"))
        return AS_MALLOC_MIMALLOC;
    return AS_MALLOC_UNKNOWN;
}

// The module that answers malloc, or NULL. Without ld.so's list: the program before its libraries, and one that is no
// libc before libc, for whoever brings a malloc of his own means it to be used. ld.so's own is for itself alone.
static const struct as_module *answering(const struct as_modules *modules)
{
    const struct as_module *best = NULL;
    uint64_t best_rank = UINT64_MAX;
    AS_FOR_EACH(const struct as_module, module, &modules->list) {
        uint64_t rank = module->order;
        if (!module->defines_malloc || begins_with_prefix(module->elf.soname, "ld-linux"))
            continue;
        if (modules->ordered && module->order == AS_NO_ORDER)
            continue;
        if (!modules->ordered)
            rank = module->is_program ? 0 : is_glibc(modules, module) || is_musl(modules, module) ? 2 : 1;
        if (rank < best_rank) {
            best = module;
            best_rank = rank;
        }
    }
    return best;
}

static const struct as_module *find_module(const struct as_modules *modules,
                                           bool (*is)(const struct as_modules *, const struct as_module *))
{
    for (size_t i = 0; i < modules->list.count; i++) {
        if (is(modules, &modules->list.items[i]))
            return &modules->list.items[i];
    }
    return NULL;
}

static bool is_valgrind(const struct as_modules *modules, const struct as_module *module)
{
    // vgpreload_core and one of vgpreload_memcheck, _massif, ... are preloaded into whatever valgrind runs.
    return begins_with_prefix(as_module_name(modules, module), "vgpreload_");
}

static bool is_go_program(const struct as_modules *modules, const struct as_module *module)
{
    (void)modules;
    return module->is_program && module->elf.is_go;
}

static bool is_any_static(const struct as_modules *modules, const struct as_module *module)
{
    return is_static_program(module) && !is_musl(modules, module);
}

// Functions that one allocator has, and nobody else: musl's are of mallocng and of oldmalloc.
static const struct {
    const char *name;
    enum as_malloc_kind kind;
} telling[] = {
    {"__malloc_donate", AS_MALLOC_MUSL}, {"__libc_malloc_impl", AS_MALLOC_MUSL}, {"__asan_init", AS_MALLOC_ASAN},
    {"mallctl", AS_MALLOC_JEMALLOC},     {"je_mallctl", AS_MALLOC_JEMALLOC},     {"tc_malloc", AS_MALLOC_TCMALLOC},
    {"mi_malloc", AS_MALLOC_MIMALLOC},
};

static bool classify_name(void *context, const char *name, const Elf64_Sym *symbol)
{
    enum as_malloc_kind *kind = context;
    for (size_t i = 0; i < sizeof telling / sizeof telling[0]; i++)
        if (symbol->st_shndx != SHN_UNDEF && strcmp(name, telling[i].name) == 0)
            *kind = telling[i].kind;
    return *kind == AS_MALLOC_UNKNOWN;
}

// An allocator that was linked into an object statically shows by its names alone, if they were not stripped.
static enum as_malloc_kind kind_by_names(const struct as_modules *modules, const struct as_module *module)
{
    struct as_module copy = *module;
    enum as_malloc_kind kind = AS_MALLOC_UNKNOWN;
    if (as_module_open(modules, &copy)) {
        as_elf_visit_symtab(&copy.elf, classify_name, &kind);
        as_module_close(&copy);
    }
    return kind;
}

// Chromium's functions may stand before glibc's malloc or before PartitionAlloc, whose counters have names.
static enum as_malloc_kind kind_behind_shim(const struct as_modules *modules, const struct as_module *module)
{
    struct as_module copy = *module;
    if (!module->has_chromium_shim || !as_module_open(modules, &copy))
        return AS_MALLOC_UNKNOWN;
    bool found = as_text_has(&copy.elf, "PartitionAlloc.Partitions.");
    as_module_close(&copy);
    return found ? AS_MALLOC_PARTITIONALLOC : AS_MALLOC_UNKNOWN;
}

static void decide_dynamic(const struct as_modules *modules, const struct as_module *module, struct as_malloc *out)
{
    enum as_malloc_kind kind = kind_of(modules, module);
    const char *name = as_module_name(modules, module);
    if (kind == AS_MALLOC_UNKNOWN)
        kind = kind_by_names(modules, module);
    if (kind == AS_MALLOC_UNKNOWN)
        kind = kind_behind_shim(modules, module);
    if (as_module_is_malloc_debug(module)) {
        decide(out, kind, "%s is preloaded: it answers malloc(), and has an arena of its own for its checks", name);
    } else if (kind == AS_MALLOC_GLIBC) {
        decide(out, kind, out->go_program ? "%s; but Go has a heap of its own, and only C code uses malloc" : "%s",
               name);
    } else if (kind == AS_MALLOC_UNKNOWN) {
        decide(out, kind, "%s defines malloc: an allocator unknown to arenascope", name);
    } else if (kind == AS_MALLOC_MUSL) {
        decide(out, kind, "%s", name);
    } else if (kind == AS_MALLOC_PARTITIONALLOC) {
        decide(out, kind, "%s defines malloc: PartitionAlloc behind Chromium's functions", name);
    } else {
        decide(out, kind, module->is_program ? "%s, the program itself, defines malloc" : "%s is loaded ahead of libc",
               name);
    }
}

// A static program without glibc's malloc.
static void decide_static(const struct as_modules *modules, const struct as_module *module, struct as_malloc *out)
{
    enum as_malloc_kind kind = kind_by_names(modules, module);
    const char *name = as_module_name(modules, module);
    if (kind == AS_MALLOC_UNKNOWN)
        decide(out, kind, "%s is linked statically, without glibc's malloc", name);
    else
        decide(out, kind, "%s is linked statically, with %s inside", name, as_malloc_kind_name(kind));
}

void as_allocator_decide(const struct as_modules *modules, struct as_malloc *out)
{
    const struct as_module *valgrind = find_module(modules, is_valgrind);
    const struct as_module *module = answering(modules);
    const struct as_module *program = find_module(modules, is_any_static);
    const struct as_module *musl = find_module(modules, is_musl);
    const struct as_module *go = find_module(modules, is_go_program);
    out->go_program = go ? go->start : 0;
    AS_FOR_EACH(const struct as_module, each, &modules->list) {
        as_interpreters_add(&out->interpreters, (struct as_range){each->start, each->end}, each->interpreters);
        out->loaded |= (uint32_t)each->is_jemalloc << AS_MALLOC_JEMALLOC |
                       (uint32_t)each->is_tcmalloc << AS_MALLOC_TCMALLOC |
                       (uint32_t)each->is_mimalloc << AS_MALLOC_MIMALLOC;
    }
    if (modules->cut && out->libcs.count == 0) {
        decide(out, AS_MALLOC_UNKNOWN, "too many objects are mapped: none of the first %zu is a libc",
               modules->list.count);
    } else if (valgrind) {
        decide(out, AS_MALLOC_VALGRIND, "%s is loaded: Valgrind runs the program and answers malloc",
               as_module_name(modules, valgrind));
    } else if (module) {
        decide_dynamic(modules, module, out);
    } else if (out->libcs.count && program) {
        decide(out, AS_MALLOC_GLIBC, "%s is linked statically, with glibc's malloc inside",
               as_module_name(modules, program));
    } else if (out->libcs.count) {
        decide(out, AS_MALLOC_GLIBC,
               "an arena of glibc was found in memory; no file says which malloc the process calls");
    } else if (musl) {
        decide(out, AS_MALLOC_MUSL, "%s", as_module_name(modules, musl));
    } else if (go) {
        decide(out, AS_MALLOC_GO, "a Go program without libc: it has a heap of its own, and no malloc");
    } else if (program) {
        decide_static(modules, program, out);
    } else {
        decide(out, AS_MALLOC_UNKNOWN, "%zu objects are mapped, and none of them is a libc", modules->list.count);
    }
}

const char *as_malloc_kind_name(enum as_malloc_kind kind)
{
    static const char names[][16] = {
        [AS_MALLOC_UNKNOWN] = "unknown",
        [AS_MALLOC_GLIBC] = "glibc",
        [AS_MALLOC_JEMALLOC] = "jemalloc",
        [AS_MALLOC_TCMALLOC] = "tcmalloc",
        [AS_MALLOC_MIMALLOC] = "mimalloc",
        [AS_MALLOC_MUSL] = "musl",
        [AS_MALLOC_ASAN] = "asan",
        [AS_MALLOC_VALGRIND] = "valgrind",
        [AS_MALLOC_GO] = "go",
        [AS_MALLOC_PARTITIONALLOC] = "partitionalloc",
    };
    return names[kind < sizeof names / sizeof *names ? kind : AS_MALLOC_UNKNOWN];
}
