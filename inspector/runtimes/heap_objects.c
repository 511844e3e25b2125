// SPDX-License-Identifier: MIT
#include "runtimes/heap_objects.h"

#include "runtimes/cpython.h"
#include "runtimes/ruby.h"

enum { LEAST_CHUNK = 32 }; // of malloc: MINSIZE

// Ruby's strings and arrays may be chunks of any size; of Python's memory only what is too large for pymalloc is.
static uint64_t chunks_from(const struct as_malloc *m)
{
    return as_interpreters_first(&m->interpreters, AS_INTERPRETER_RUBY) ? LEAST_CHUNK : AS_CPYTHON_LARGE_CHUNK;
}

// Chunks are glibc's. What objects have in another malloc was not searched.
static void leave_unknown(struct as_store *s)
{
    for (size_t i = 0; i < s->types.count; i++)
        s->types.items[i].malloc_bytes = s->types.items[i].owned_malloc_bytes = AS_UNKNOWN;
    for (size_t i = 0; i < s->classes.count; i++)
        s->classes.items[i].owned_malloc_bytes = s->classes.items[i].not_marked_bytes = AS_UNKNOWN;
}

static bool count_objects(struct as_target *t, const struct as_malloc *m, struct as_store *s, const uint64_t *chunks,
                          size_t chunk_count, struct as_error *err)
{
    bool ok = as_cpython_objects(t, s, chunks, chunk_count, err) && as_ruby_objects(t, s, chunks, chunk_count, err);
    if (ok && m->kind != AS_MALLOC_GLIBC)
        leave_unknown(s);
    return ok;
}

const struct as_object_counting as_object_counting = {.chunks_from = chunks_from, .count = count_objects};
