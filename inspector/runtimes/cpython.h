// SPDX-License-Identifier: MIT
// CPython's own heap in a target: the arenas of pymalloc, which have the objects and buffers of up to 512 bytes. Found from
// outside, with no symbols: by structure, and proven (cpython.c).
#pragma once

#include "runtimes/finder.h"
#include "runtimes/visitor.h"
#include "target/target.h"

// Finds pymalloc's arenas: a record of the runtime, its regions by address, its size classes. `resident` and `heap` of a region are the
// ledger's to fill in. With in->pages, store->runtime_pages has the pages of the arenas. No record: no CPython is mapped here. A record with
// state AS_REGIONS_UNPROVEN, and a warning: there is one, and its arenas were not found.
bool as_cpython_find(const struct as_finder_input *in);

// Counts the objects of a CPython that as_cpython_find found, by type, into store->types, and fills in its record's `objects`,
// `other_blocks` and `other_bytes`. `chunks`: addresses of malloc's chunks in use that are larger than pymalloc's largest block, in
// order. False (AS_NO_MEMORY): our memory ran out. What cannot be counted is AS_OBJECTS_UNKNOWN, with a note.
bool as_cpython_objects(struct as_target *t, struct as_store *store, const uint64_t *chunks, size_t chunk_count,
                        struct as_error *err);
// A chunk of malloc that may be such an object has at least so many bytes; where there are no arenas (PYTHONMALLOC=malloc), it may have
// any size.
enum { AS_CPYTHON_LARGE_CHUNK = 528, AS_CPYTHON_CHUNK = 32 };
static inline uint64_t as_cpython_chunks_from(const struct as_runtime_record *python)
{
    return python->state == AS_REGIONS_FOUND ? AS_CPYTHON_LARGE_CHUNK : AS_CPYTHON_CHUNK;
}

// Goes through the blocks of a CPython (its index in store->runtimes), and the chunks that may be objects. `chunks`: as above, from
// as_cpython_chunks_from on. False: AS_NO_MEMORY.
bool as_cpython_visit(struct as_target *t, const struct as_store *store, uint32_t runtime, const uint64_t *chunks,
                      size_t chunk_count, const struct as_object_visitor *visitor, struct as_visited *visited,
                      struct as_error *err);
