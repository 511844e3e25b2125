// SPDX-License-Identifier: MIT
#include "cli/names.h"

#include "libc/libc.h"
#include "model/view.h"
#include "target/target.h"

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
                                        [AS_MODE_SNAPSHOT] = "snapshot",
                                        [AS_MODE_LIVE] = "live",
                                        [AS_MODE_IN_PROCESS] = "in-process",
                                        [AS_MODE_CORE] = "core"};
    return NAME_OF(names, mode);
}

enum as_malloc_kind as_malloc_of(const struct as_meta_record *m)
{
    if (m->malloc_kind == AS_MALLOC_UNKNOWN && m->malloc_later == AS_MALLOC_PARTITIONALLOC)
        return AS_MALLOC_PARTITIONALLOC;
    return m->malloc_kind <= AS_MALLOC_GO ? (enum as_malloc_kind)m->malloc_kind : AS_MALLOC_UNKNOWN;
}

const struct as_not_glibc *as_not_glibc_words(const struct as_meta_record *m)
{
    static const struct as_not_glibc other = {
        "The malloc of this process is not glibc's",
        "Its memory is in the rows that are not malloc's; the arenas below are glibc's."};
    static const struct as_not_glibc unknown = {
        "It is unknown which malloc this process uses",
        "Memory outside of glibc's arenas is in the rows that are not malloc's."};
    return as_malloc_of(m) == AS_MALLOC_GLIBC ? NULL : as_malloc_of(m) == AS_MALLOC_UNKNOWN ? &unknown : &other;
}

const char *as_row_meaning(int row, const struct as_meta_record *m)
{
    bool other = as_malloc_of(m) != AS_MALLOC_GLIBC && row == AS_ROW_other_anon;
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

const char *as_runtime_name(uint32_t kind)
{
    static const char *const names[] = {
        [AS_RUNTIME_CPYTHON] = "cpython",
        [AS_RUNTIME_JVM_HEAP] = "jvm",
        [AS_RUNTIME_JVM_CODE] = "jvm",
        [AS_RUNTIME_JVM_METASPACE] = "jvm",
        [AS_RUNTIME_JEMALLOC] = "jemalloc",
        [AS_RUNTIME_TCMALLOC] = "tcmalloc",
        [AS_RUNTIME_MIMALLOC] = "mimalloc",
        [AS_RUNTIME_MUSL] = "musl",
        [AS_RUNTIME_PARTITIONALLOC] = "partitionalloc",
        [AS_RUNTIME_ZEND] = "zend",
        [AS_RUNTIME_V8] = "v8",
        [AS_RUNTIME_GO] = "go",
        [AS_RUNTIME_RUBY] = "ruby",
    };
    return NAME_OF(names, kind);
}

const char *as_runtime_part_name(uint32_t kind)
{
    static const char *const names[] = {
        [AS_RUNTIME_CPYTHON] = "arenas",
        [AS_RUNTIME_JVM_HEAP] = "heap",
        [AS_RUNTIME_JVM_CODE] = "code",
        [AS_RUNTIME_JVM_METASPACE] = "metaspace",
        [AS_RUNTIME_JEMALLOC] = "heap",
        [AS_RUNTIME_TCMALLOC] = "heap",
        [AS_RUNTIME_MIMALLOC] = "heap",
        [AS_RUNTIME_MUSL] = "heap",
        [AS_RUNTIME_PARTITIONALLOC] = "heap",
        [AS_RUNTIME_ZEND] = "heap",
        [AS_RUNTIME_V8] = "heap",
        [AS_RUNTIME_GO] = "heap",
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
