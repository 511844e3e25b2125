// SPDX-License-Identifier: MIT
#include "cli/enum_names.h"

#include <stddef.h>

#define NAME_OF(table, index) ((index) < sizeof(table) / sizeof((table)[0]) ? (table)[index] : NULL)

const char *as_target_kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [AS_TARGET_PROCESS] = "process", [AS_TARGET_CORE] = "core", [AS_TARGET_SELF] = "self"};
    return NAME_OF(names, kind);
}

const char *as_arch_name(uint32_t arch)
{
    return arch == AS_ARCH_X86_64 ? "x86_64" : arch == AS_ARCH_AARCH64 ? "aarch64" : NULL;
}

const char *as_mode_name(uint32_t mode)
{
    static const char *const names[] = {[AS_MODE_FREEZE] = "freeze",
                                        [AS_MODE_CLONE] = "clone",
                                        [AS_MODE_LIVE] = "live",
                                        [AS_MODE_IN_PROCESS] = "in-process",
                                        [AS_MODE_CORE] = "core"};
    return NAME_OF(names, mode);
}

int as_row_of_malloc(const struct as_view *v)
{
    int row = v->meta->malloc_kind == AS_MALLOC_GO ? AS_ROW_managed : AS_ROW_other_malloc;
    uint64_t located = as_row_value(&v->totals->ledger, row);
    return located == 0 || located == AS_UNKNOWN ? AS_ROW_other_anon : row;
}

const struct as_not_glibc *as_not_glibc_words(const struct as_view *v)
{
    static const struct as_not_glibc other = {
        "The malloc of this process is not glibc's",
        "Its memory is in the rows that are not malloc's; the arenas below are glibc's."};
    static const struct as_not_glibc located = {
        "The malloc of this process is not glibc's",
        "Its memory is in the row \"other malloc\"; the arenas below are glibc's."};
    static const struct as_not_glibc go = {"The malloc of this process is not glibc's",
                                           "Go's heap is in the row \"managed memory\"; the arenas below are glibc's."};
    static const struct as_not_glibc unknown = {
        "It is unknown which malloc this process uses",
        "Memory outside of glibc's arenas is in the rows that are not malloc's."};
    if (v->meta->malloc_kind == AS_MALLOC_GLIBC)
        return NULL;
    if (v->meta->malloc_kind == AS_MALLOC_UNKNOWN)
        return &unknown;
    int row = as_row_of_malloc(v);
    return row == AS_ROW_other_anon ? &other : row == AS_ROW_managed ? &go : &located;
}

const char *as_row_meaning(int row, const struct as_view *v)
{
    bool other = v->meta->malloc_kind != AS_MALLOC_GLIBC && row == AS_ROW_other_anon && as_row_of_malloc(v) == row;
    return other ? "another malloc's, own mmap, GC" : as_row_words[row].meaning;
}

const char *as_source_name(uint32_t source)
{
    if (source == AS_LAYOUT_NONE || source > AS_LAYOUT_SCAN)
        return NULL;
    return as_layout_source_name((enum as_layout_source)source);
}

const char *as_warning_name(uint32_t code)
{
    static const char *const names[] = {
        [AS_WARN_NOTE] = "note",           [AS_WARN_CORRUPT] = "corrupt",     [AS_WARN_RESIDENCY] = "residency",
        [AS_WARN_TCACHE] = "tcache",       [AS_WARN_MMAPPED] = "mmapped",     [AS_WARN_SUM] = "sum",
        [AS_WARN_LOCKED] = "locked",       [AS_WARN_ALLOCATOR] = "allocator", [AS_WARN_LAYOUT] = "layout",
        [AS_WARN_ESTIMATED] = "estimated",
    };
    return NAME_OF(names, code);
}

static const struct {
    const char *runtime, *part;
} runtime_names[] = {
#define AS_RUNTIME_NAMES(kind, runtime, part) [kind] = {runtime, part},
#include "model/enums.def"
};

const char *as_runtime_name(uint32_t kind)
{
    return kind < sizeof(runtime_names) / sizeof(runtime_names[0]) ? runtime_names[kind].runtime : NULL;
}

const char *as_runtime_part_name(uint32_t kind)
{
    return kind < sizeof(runtime_names) / sizeof(runtime_names[0]) ? runtime_names[kind].part : NULL;
}

const char *as_class_kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [AS_CLASS_NAMED] = "named",
        [AS_CLASS_ANONYMOUS] = "anonymous",
        [AS_CLASS_SINGLETON] = "singleton",
        [AS_CLASS_INTERNAL] = "internal",
    };
    return NAME_OF(names, kind);
}

const char *as_chunk_name(uint32_t kind)
{
    static const char *const names[] = {
        [AS_CHUNK_UNKNOWN] = "unknown",   [AS_CHUNK_IN_USE] = "in_use", [AS_CHUNK_TCACHE] = "tcache",
        [AS_CHUNK_FASTBIN] = "fastbin",   [AS_CHUNK_BINNED] = "binned", [AS_CHUNK_TOP] = "top",
        [AS_CHUNK_METADATA] = "metadata",
    };
    return NAME_OF(names, kind);
}
