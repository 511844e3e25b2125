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
