// SPDX-License-Identifier: MIT
#include "runtimes/allocators.h"

#include "runtimes/innodb.h"
#include "runtimes/jemalloc.h"
#include "runtimes/mimalloc.h"
#include "runtimes/musl.h"
#include "runtimes/partitionalloc.h"
#include "runtimes/regions.h"
#include "runtimes/tcmalloc.h"
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

typedef bool find_fn(struct as_target *t, struct as_store *store, bool *found, struct as_error *err);

// The finders, each with the kind of what it finds, and where it inspects: wherever it may be linked in, or only where something says
// that it may answer malloc.
static const struct {
    find_fn *find;
    uint32_t kind;
    bool anywhere;
} finders[] = {
    {as_jemalloc_find, AS_RUNTIME_JEMALLOC, true},   {as_mimalloc_find, AS_RUNTIME_MIMALLOC, true},
#ifndef AS_AGENT
    {as_mimalloc3_find, AS_RUNTIME_MIMALLOC, false}, {as_tcmalloc_find, AS_RUNTIME_TCMALLOC, false},
    {as_musl_find, AS_RUNTIME_MUSL, false},          {as_partitionalloc_find, AS_RUNTIME_PARTITIONALLOC, false},
#endif
};

bool as_allocators_find(struct as_target *t, enum as_malloc_kind answering, struct as_store *store,
                        struct as_error *err)
{
    uint32_t kind = kind_of(answering);
    bool located = kind == 0;
    for (size_t i = 0; i < sizeof finders / sizeof *finders; i++) {
        bool found = false, may_answer = kind == finders[i].kind || kind == AS_RUNTIME_UNKNOWN_MALLOC;
        if ((finders[i].anywhere || may_answer) && !finders[i].find(t, store, &found, err))
            return false;
        located |= found && may_answer;
    }
    if (!as_zend_find(t, store, err) || !as_innodb_find(t, store, err))
        return false;
    return located || as_runtime_add(store, kind, AS_ROW_other_malloc, err) != UINT32_MAX;
}
