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

static bool count_objects(struct as_target *t, struct as_store *s, const uint64_t *chunks, size_t chunk_count,
                          struct as_error *err)
{
    return as_cpython_objects(t, s, chunks, chunk_count, err) && as_ruby_objects(t, s, chunks, chunk_count, err);
}

const struct as_object_counting as_object_counting = {.chunks_from = chunks_from, .count = count_objects};
