// SPDX-License-Identifier: MIT
// One tcache_perthread_struct: where one can be, whether bytes can be one, and the members of its lists.
#pragma once

#include "base/align.h"
#include "base/error.h"
#include "malloc/heaps.h"
#include "target/target.h"

// Small reads at scattered places, as the lists of free chunks ask for: a page cache in front of the target.
struct as_page_cache {
    struct as_target *target;
    uint64_t *tags; // address of the page in each slot, plus one; 0: empty
    uint8_t *pages;
};

bool as_page_cache_open(struct as_page_cache *p, struct as_target *t, struct as_error *err);
void as_page_cache_close(struct as_page_cache *p);

// Copies `length` bytes (through the cache where they lie in one page); false when they cannot be read.
bool as_page_cache_read(struct as_page_cache *p, uint64_t address, void *out, size_t length);

enum { AS_TCACHE_BYTES = 1024 }; // no tcache_perthread_struct is larger; the largest known has 760

// False where a libc's threads have no tcache: before 2.26.
static inline bool as_has_tcache(const struct as_heaps *h, uint32_t libc_index)
{
    return h->malloc->libcs.items[libc_index].layout.heap.tcache_size > 0;
}

// Sizes of the chunk that holds a tcache_perthread_struct: as large as asked for, or up to 16 bytes more where the rest would
// have been too small for a chunk of its own, and up to 16 more again from 2.43, whose tcache_init rounds twice.
static inline uint64_t as_tcache_chunk_least(const struct as_heap_layout *layout)
{
    return as_align_up((uint64_t)layout->tcache_size + 8, AS_ALIGNMENT);
}
static inline uint64_t as_tcache_chunk_most(const struct as_heap_layout *layout)
{
    return as_tcache_chunk_least(layout) + (layout->tcache_counts_down ? 2 : 1) * AS_ALIGNMENT;
}
static inline bool as_tcache_chunk_size(const struct as_heap_layout *layout, uint64_t size)
{
    return size >= as_tcache_chunk_least(layout) && size <= as_tcache_chunk_most(layout);
}

// Every place that may hold a tcache_perthread_struct has malloc's header before it, in a heap of that libc's, or in a map
// of its own where mmap_threshold is below its size. True: `address` is such a place.
bool as_tcache_placed(const struct as_heaps *h, uint32_t libc_index, uint64_t address);

// True if `bytes` (layout.tcache_size of them, read at `address`) can be a tcache_perthread_struct in use.
bool as_tcache_plausible(const struct as_heaps *h, const struct as_libc *libc, const struct as_par *par,
                         const uint8_t *bytes);

// Copies the struct at `address`, layout->tcache_size bytes. False: it cannot be read, or the layout has it larger than any is.
bool as_tcache_copy(struct as_target *t, const struct as_heap_layout *layout, uint64_t address,
                    uint8_t bytes[AS_TCACHE_BYTES]);

// Would they be one in use if mp_.tcache_count were another number? From 2.42 on an empty bin says which.
bool as_tcache_contradicts_limit(const struct as_heaps *h, const struct as_heap_layout *layout, const uint8_t *bytes);

// Are all bytes of the struct zero? Up to 2.41 an empty one is.
static inline bool as_tcache_is_zero(const struct as_heap_layout *layout, const uint8_t *bytes)
{
    for (int32_t i = 0; i < layout->tcache_size; i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

// What a tcache was found to hold.
struct as_tcache_contents {
    uint64_t count, bytes; // chunks
    uint64_t key;          // tcache_entry.key of the last one
    bool keys_differ;      // not all of them have it
};

// Adds the struct's own chunk and all that it holds to h->cached, and what these are to `sum`. A fault where it cannot be
// read or a list is broken: then `sum` has what was found before. AS_NO_MEMORY.
bool as_tcache_read(struct as_heaps *h, uint32_t libc_index, struct as_page_cache *cache, uint64_t address,
                    struct as_tcache_contents *sum, struct as_error *err);
