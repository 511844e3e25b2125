// SPDX-License-Identifier: MIT
#include "runtimes/allocators.h"

#include "runtimes/innodb.h"
#include "runtimes/jemalloc.h"
#include "runtimes/mimalloc.h"
#include "runtimes/regions.h"
#include "runtimes/zend.h"

// The kind of record of an allocator that answers malloc; 0: glibc's, or there is none (Go).
static uint32_t kind_of(enum as_malloc_kind answering)
{
    switch (answering) {
    case AS_MALLOC_JEMALLOC:
        return AS_RUNTIME_JEMALLOC;
    case AS_MALLOC_TCMALLOC:
        return AS_RUNTIME_TCMALLOC;
    case AS_MALLOC_MIMALLOC:
        return AS_RUNTIME_MIMALLOC;
    case AS_MALLOC_MUSL:
        return AS_RUNTIME_MUSL;
    case AS_MALLOC_PARTITIONALLOC:
        return AS_RUNTIME_PARTITIONALLOC;
    case AS_MALLOC_ASAN:
        return AS_RUNTIME_ASAN;
    case AS_MALLOC_VALGRIND:
        return AS_RUNTIME_VALGRIND;
    case AS_MALLOC_UNKNOWN:
        return AS_RUNTIME_UNKNOWN_MALLOC;
    case AS_MALLOC_GLIBC:
    case AS_MALLOC_GO:
        break;
    }
    return 0;
}

bool as_allocators_find(struct as_target *t, enum as_malloc_kind answering, struct as_store *store,
                        struct as_error *err)
{
    bool jemalloc, mimalloc;
    uint32_t kind = kind_of(answering);
    if (!as_jemalloc_find(t, store, &jemalloc, err) || !as_mimalloc_find(t, store, &mimalloc, err) ||
        !as_zend_find(t, store, err) || !as_innodb_find(t, store, err))
        return false;
    bool located = (jemalloc && kind == AS_RUNTIME_JEMALLOC) || (mimalloc && kind == AS_RUNTIME_MIMALLOC) ||
                   ((jemalloc || mimalloc) && kind == AS_RUNTIME_UNKNOWN_MALLOC);
    if (kind == 0 || located)
        return true;
    return as_runtime_add(store, kind, AS_ROW_other_malloc, err) != UINT32_MAX;
}
