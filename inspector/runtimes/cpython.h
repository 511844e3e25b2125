// SPDX-License-Identifier: MIT
// CPython's own heap in a target: the arenas of pymalloc, which have the objects and buffers of up to 512 bytes. Found from
// outside, with no symbols: by structure, and proven (cpython.c).
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// Looks for pymalloc's arenas in a target that stands still and whose residency has been captured, and adds them to `store`: a
// record of the runtime, its regions by address, its size classes. `resident` and `heap` of a region are the ledger's to fill
// in. `pages`: the pages of the arenas are wanted, too (store->runtime_pages). No record: no CPython is mapped here. A record with state AS_REGIONS_UNPROVEN, and a warning: there is one, and its
// arenas were not found. False (AS_NO_MEMORY): our memory ran out.
bool as_cpython_find(struct as_target *t, bool pages, struct as_store *store, struct as_error *err);

// Counts the objects of a CPython that as_cpython_find found, by type, into store->types, and fills in its record's `objects`,
// `other_blocks` and `other_bytes`. `chunks`: addresses of malloc's chunks in use that are larger than pymalloc's largest block, in
// order. False (AS_NO_MEMORY): our memory ran out. What cannot be counted is AS_OBJECTS_UNKNOWN, with a note.
bool as_cpython_objects(struct as_target *t, struct as_store *store, const uint64_t *chunks, size_t chunk_count,
                        struct as_error *err);
// A chunk of malloc that may be such an object has at least so many bytes.
enum { AS_CPYTHON_LARGE_CHUNK = 528 };

// A block of a pool that is in use, or a chunk as above.
struct as_cpython_block {
    uint64_t address, size; // of the memory that Python asked for; bytes
    uint64_t region_end;    // where the region ends that it lies in; 0: it is a chunk of malloc's
    uint32_t type;          // its type's number; UINT32_MAX: no object is in it
    uint32_t head; // bytes before the object: PyGC_Head, what stands before that, and prefixes of PYTHONMALLOC=debug
    uint64_t used; // bytes up to the object's end: what is behind is left over; 0: not known
};
struct as_cpython_type {
    uint64_t address; // of the PyTypeObject
    const char *name;
    const char *memory; // what an object's own memory is: "items"
    bool collected;     // objects have a PyGC_Head
    bool of_heap;       // it was made at run time, and is in memory that Python asked for
    bool leftovers; // words in an object may be left over: it is a text, a number, or a frame with a stack of values
    bool weak_reference; // what an object refers to is not held by that
};
// What is told of a Python: its blocks by address, those of its regions first; between them the memory that objects have of their own,
// and how many bytes of that are in use (0: not known); at last its types by their numbers, from 0 on. Each returns false to end
// that: AS_NO_MEMORY.
struct as_cpython_visitor {
    void *context;
    bool (*block)(void *context, const struct as_cpython_block *block);
    bool (*owned)(void *context, uint64_t address, uint64_t used, uint32_t type);
    bool (*type)(void *context, const struct as_cpython_type *type);
};
// Goes through the blocks of a CPython that as_cpython_find found (its index in store->runtimes). `chunks`: as above. *known: its
// structures are those that we know; false: what the visitor was told is not to be believed. *changed: Python was at work meanwhile. False: AS_NO_MEMORY.
bool as_cpython_visit(struct as_target *t, const struct as_store *store, uint32_t runtime, const uint64_t *chunks,
                      size_t chunk_count, const struct as_cpython_visitor *visitor, bool *known, bool *changed,
                      struct as_error *err);
