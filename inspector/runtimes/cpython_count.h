// SPDX-License-Identifier: MIT
// Counting a CPython's objects: what its parts share. cpython_objects.c goes through pools and chunks, cpython_blocks.c tells which of
// them are objects and what these own, and cpython_owners.c gives the owned ones to their owners. Internal to runtimes/.
#pragma once

#include "base/align.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_layout.h"
#include "runtimes/cpython_types.h"

enum {
    AS_PY_READ = 128,        // bytes of a block that are inspected: the largest head, and a set up to its table
    AS_PY_WORD_BITS = 64,    // of the bitmap of unclaimed blocks
    AS_PY_DEBUG_PREFIX = 16, // bytes before a block's memory with PYTHONMALLOC=debug
    AS_PY_CHUNK_HEADER = 16, // bytes before a chunk's memory (malloc)
    AS_PY_TYPE_BITS = 17,    // of an owned address beside its owner
    AS_PY_GRANULE_BITS = 4,  // of AS_PY_ALIGNMENT
    AS_PY_ADDRESS_BITS = 47, // of the addresses that are followed: the kernel gives no others unasked
};
_Static_assert(AS_PY_MOST_TYPES == 1 << AS_PY_TYPE_BITS, "an index fits");

// A large chunk in use; its size is 0 from when it is known to whom it belongs.
struct as_py_chunk {
    uint64_t address, size;
};

// What objects own, as one thread has noted it: the 16 bytes that an object points to as its own, and the number of its type.
struct as_py_owned {
    AS_VEC(uint64_t) items;
    AS_VEC(uint32_t) numbers; // of that thread's types in the common table; empty: the same
};

// What the objects of some regions own: items [first, end) of a list.
struct as_py_batch {
    size_t list, first, end;
};

enum as_py_collector { AS_PY_COLLECTOR_UNKNOWN, AS_PY_COLLECTOR_FOUND, AS_PY_COLLECTOR_OFF };

struct as_py_count {
    struct as_target *target;
    struct as_store *store; // for the types; of a visit NULL
    struct as_error *err;
    struct as_py_types types;
    const struct as_runtime_record *runtime;
    const struct as_region_record *regions; // by address
    size_t region_count;
    uint64_t pool_size;
    uint64_t least;             // bytes of a chunk of malloc that may be an object
    uint64_t lowest;            // address of the first mapping
    size_t bitmap_words;        // for a region
    AS_VEC(uint64_t) unclaimed; // a bit for each 16 bytes of each region: a block in use that is no object begins here
    AS_VEC(uint8_t) size_classes;       // of each pool of each region, plus one; 0: no block in use
    AS_VEC(uint64_t) owned;             // as in as_py_owned, of one thread's objects
    AS_VEC(struct as_py_owned) lists;   // of all threads, which are done
    AS_VEC(struct as_py_batch) batches; // in the order of the regions
    AS_VEC(struct as_py_chunk) chunks;
    uint64_t other_blocks, other_bytes;
    uint64_t gc_objects;
    enum as_py_collector collector;
    uint32_t collector_tries;
    const struct as_object_visitor *visitor; // is told of each block; NULL: nobody is
    bool changed;                            // pymalloc was at work meanwhile, or the target is forged
};

static inline uint64_t as_py_first_pool(const struct as_py_count *c, const struct as_region_record *region)
{
    return as_align_up(region->address, c->pool_size);
}

static inline uint32_t as_py_pools_of(const struct as_py_count *c, const struct as_region_record *region)
{
    return (uint32_t)((region->address + region->size - as_py_first_pool(c, region)) / c->pool_size);
}

// Counts the pools of the regions [first, end), which are read through `window`. Of `c`, what one thread writes is its own. False
// (AS_NO_MEMORY): our memory ran out.
typedef bool (*as_py_counting)(struct as_py_count *c, struct as_window *window, size_t first, size_t end);
// Has all regions counted, by as many threads as there are processors, or by one if a visitor has to be told in order. What objects
// own is in `lists` then, and `batches` has it in the order of the regions, as if one thread had counted them. AS_NO_MEMORY.
bool as_py_count_all(struct as_py_count *c, as_py_counting counting);

// The object that a block has.
struct as_py_found {
    uint32_t type; // AS_PY_NO_TYPE: none
    uint32_t head; // bytes of the block before it
    uint64_t used; // bytes of the block up to its end; 0: not known
};
// Counts a block or chunk of `size` bytes at an address, of which up to AS_PY_READ can be read at `block`: with its
// type, if it is an object; and takes note of what it owns. False (AS_NO_MEMORY): our memory ran out.
bool as_py_count_block(struct as_py_count *c, const uint8_t *block, uint64_t address, uint64_t size, bool mallocs,
                       struct as_py_found *found);

// Finds whether the collector of cycles is switched off, if this word of an object's PyGC_Head leads to the head of a ring.
void as_py_collector_try(struct as_py_count *c, uint64_t previous);

// After all blocks and chunks: counts those that objects own with their owners, and no more with the other blocks.
void as_py_count_owned(struct as_py_count *c);
