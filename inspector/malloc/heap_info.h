// SPDX-License-Identifier: MIT
// The header of a heap of a thread arena (struct heap_info, arena.c): what the finders and the trim both check.
#pragma once

#include "base/align.h"
#include "libc/libc.h"
#include "malloc/chunk.h"
#include "target/target.h"

struct as_heap_info {
    uint64_t ar_ptr, prev, size, mprotect_size;
};

// The heap that holds an address, and its chunks begin behind its header (in the arena's first heap behind malloc_state, too).
// `heap_max`: HEAP_MAX_SIZE.
static inline uint64_t as_heap_for_ptr(uint64_t address, uint64_t heap_max)
{
    return as_align_down(address, heap_max);
}
static inline bool as_heap_is_first(uint64_t heap, uint64_t arena, uint64_t heap_max)
{
    return arena - heap < heap_max;
}
static inline uint64_t as_heap_first_chunk(const struct as_libc *libc, uint64_t heap, uint64_t arena, uint64_t heap_max)
{
    uint64_t header = as_heap_is_first(heap, arena, heap_max) ? arena - heap + (uint64_t)libc->layout.state.size
                                                              : (uint64_t)libc->layout.heap.heap_info_size;
    return heap + as_align_up(header, AS_ALIGNMENT);
}

// What says that `info`, read at `heap`, is no header of a heap of the arena at `arena`; NULL: it can be one.
static inline const char *as_heap_info_fault(const struct as_heap_info *info, const struct as_libc *libc, uint64_t heap,
                                             uint64_t arena, uint64_t heap_max)
{
    if (info->ar_ptr != arena || info->size < (uint64_t)libc->layout.heap.heap_info_size || info->size > heap_max ||
        info->size % AS_ALIGNMENT != 0)
        return "a heap_info does not belong to its arena";
    if (as_heap_first_chunk(libc, heap, arena, heap_max) > heap + info->size)
        return "a heap is smaller than its header";
    return NULL;
}

// Mappings that can hold malloc's memory: brk and mmap give it private and anonymous.

// NULL is none.
static inline bool as_is_private_anonymous(const struct as_mapping *m)
{
    return m && m->kind == AS_MAP_ANON && !(m->prot & AS_PROT_SHARED);
}

// As malloc got it. (A program may protect pages of its own blocks later.)
static inline bool as_is_writable_anonymous(const struct as_mapping *m)
{
    return as_is_private_anonymous(m) && (m->prot & AS_PROT_WRITE);
}
