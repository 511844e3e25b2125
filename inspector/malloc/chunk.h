// SPDX-License-Identifier: MIT
// A chunk as malloc.c lays it out (struct malloc_chunk), and as the walk hands it on.
#pragma once

#include "base/vec.h"
#include "libc/safe_linking.h"
#include "model/records.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// malloc.c's constants on LP64 (MALLOC_ALIGNMENT, MINSIZE, CHUNK_HDR_SZ) and the flag bits of a size field.
enum {
    AS_ALIGNMENT = 16,
    AS_MIN_CHUNK = 32,
    AS_HEADER = 16,
    AS_PREV_INUSE = 1,
    AS_IS_MMAPPED = 2,
    AS_NON_MAIN_ARENA = 4,
    AS_FLAG_BITS = 7,
};

// The size in a chunk's size field, without its flags (chunksize).
static inline uint64_t as_chunksize(uint64_t size_field)
{
    return size_field & ~(uint64_t)AS_FLAG_BITS;
}

// A chunk on its way from the walk to its sink: its class in the low bits of its size, as sizes are multiples
// of AS_ALIGNMENT. h->cached tags addresses in the same way.
static inline uint64_t as_untagged(uint64_t tagged)
{
    return tagged & ~(uint64_t)(AS_ALIGNMENT - 1);
}
static inline enum as_chunk_class as_tag(uint64_t tagged)
{
    return (enum as_chunk_class)(tagged & (AS_ALIGNMENT - 1));
}

// Tags in a list of addresses at which chunks in use begin.
enum {
    AS_GAP = 1, // here begins anything else
    AS_GAP_FREE =
        4, // with AS_GAP, where it was asked for: what malloc_trim makes one free chunk of, up to the next address
    AS_HEAP_BEGINS = 2, // what follows, up to the next such tag, lies in one heap that begins here
};
typedef AS_VEC(uint64_t) as_boundary_vec;

struct as_chunk {
    uint64_t address;
    uint64_t tagged;
};
static inline uint64_t as_chunk_size(struct as_chunk c)
{
    return as_untagged(c.tagged);
}
static inline enum as_chunk_class as_chunk_class_of(struct as_chunk c)
{
    return as_tag(c.tagged);
}

// The size of the chunk in use that begins at a boundary; 0: none begins there.
static inline uint64_t as_boundary_size(const as_boundary_vec *boundaries, size_t i)
{
    if (i + 1 >= boundaries->count || boundaries->items[i] & (AS_GAP | AS_HEAP_BEGINS))
        return 0;
    const uint64_t next = as_untagged(boundaries->items[i + 1]);
    return next > boundaries->items[i] ? next - boundaries->items[i] : 0;
}

// Receives chunks in address order and without gaps, in batches that fit the first-level cache. False stops the walk.
struct as_chunk_sink {
    bool (*chunks)(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t count);
};
