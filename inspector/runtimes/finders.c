// SPDX-License-Identifier: MIT
#include "runtimes/finders.h"

#include "runtimes/cpython.h"
#include "runtimes/jvm.h"
#include "runtimes/regions.h"
#include "runtimes/ruby.h"
#include "runtimes/variable_words.h"

// In the order of their records.
static const struct as_finder finders[] = {
    {as_cpython_find, .anywhere = true, .before_malloc = true},
    {as_ruby_find, .anywhere = true},
    {as_jvm_find, .anywhere = true},
    {as_v8_find, .anywhere = true},
    {as_go_find, .anywhere = true},
    {as_jemalloc_find, .kind = AS_RUNTIME_JEMALLOC, .anywhere = true},
    {as_mimalloc_find, .kind = AS_RUNTIME_MIMALLOC, .anywhere = true},
#ifndef AS_AGENT
    {as_mimalloc3_find, .kind = AS_RUNTIME_MIMALLOC, .anywhere = true},
    {as_tcmalloc_find, .kind = AS_RUNTIME_TCMALLOC},
    {as_musl_find, .kind = AS_RUNTIME_MUSL},
    {as_partitionalloc_find, .kind = AS_RUNTIME_PARTITIONALLOC},
#endif
    {as_zend_find, .anywhere = true},
    {as_innodb_find, .anywhere = true},
};
enum { FINDERS = sizeof finders / sizeof *finders };

// The kind of record of an allocator that answers malloc; 0: glibc's, or there is none (Go).
static const uint8_t kinds[] = {
    [AS_MALLOC_JEMALLOC] = AS_RUNTIME_JEMALLOC,
    [AS_MALLOC_TCMALLOC] = AS_RUNTIME_TCMALLOC,
    [AS_MALLOC_MIMALLOC] = AS_RUNTIME_MIMALLOC,
    [AS_MALLOC_MUSL] = AS_RUNTIME_MUSL,
    [AS_MALLOC_ASAN] = AS_RUNTIME_ASAN,
    [AS_MALLOC_VALGRIND] = AS_RUNTIME_VALGRIND,
    [AS_MALLOC_GO] = 0,
    [AS_MALLOC_PARTITIONALLOC] = AS_RUNTIME_PARTITIONALLOC,
    [AS_MALLOC_UNKNOWN] = AS_RUNTIME_UNKNOWN_MALLOC,
};

bool as_finders_call_first(const struct as_finder_input *in)
{
    for (size_t i = 0; i < FINDERS; i++)
        if (finders[i].before_malloc && !finders[i].find(in))
            return false;
    return true;
}

static bool has_record(const struct as_store *s, uint32_t kind)
{
    for (size_t i = 0; i < s->runtimes.count; i++)
        if (s->runtimes.items[i].kind == kind)
            return true;
    return false;
}

// An allocator that was loaded has memory, even if none was found: it is unknown then, and not 0.
static bool add_loaded(const struct as_finder_input *in)
{
    for (size_t i = 0; i < sizeof kinds; i++)
        if (in->malloc->loaded >> i & 1 && !has_record(in->store, kinds[i]) &&
            as_runtime_add(in->store, kinds[i], AS_ROW_other_malloc, in->err) == UINT32_MAX)
            return false;
    return true;
}

bool as_finders_call(const struct as_finder_input *in)
{
    uint32_t kind = kinds[in->malloc->kind];
    if (in->words)
        as_variable_words_read(in->words, in->target, &in->malloc->interpreters);
    bool located = kind == 0;
    for (size_t i = 0; i < FINDERS; i++) {
        const struct as_finder *f = &finders[i];
        bool may_answer = f->kind != 0 && (kind == f->kind || kind == AS_RUNTIME_UNKNOWN_MALLOC);
        size_t before = in->store->runtimes.count;
        if (!f->before_malloc && (f->anywhere || may_answer) && !f->find(in))
            return false;
        located |= may_answer && in->store->runtimes.count > before;
    }
    located = located || as_runtime_add(in->store, kind, AS_ROW_other_malloc, in->err) != UINT32_MAX;
    return located && add_loaded(in);
}
