// SPDX-License-Identifier: MIT
// glibc's heap as it lies in memory: arenas, their heaps, the chunks in them, what is cached, what was mmapped. These are the
// structs that the finders fill in, each its own: find.h has them all in their order.
//
// The finders read a target with a known layout, and know nothing of pages, residency or ledgers. Every value that comes from
// the target is checked before it is used: a hostile heap costs bounded time and memory, and is reported (faults.h).
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "libc/libc.h"
#include "malloc/chunk.h"
#include "target/target.h"

#include <stdint.h>

// Which addresses the heaps occupy, so that no byte is claimed twice: a hostile target may have two arenas, or mp_ and an
// arena, point at the same memory.
struct as_span {
    uint64_t start, end;
};
typedef AS_VEC(struct as_span) as_span_vec; // by address, never overlapping

// The first span that ends behind `address`: the one that holds it, or the next one. NULL when there is none.
const struct as_span *as_span_from(const as_span_vec *spans, uint64_t address);

// True if [start, end) is not empty and touches no span.
bool as_span_is_clear(const as_span_vec *spans, uint64_t start, uint64_t end);

// Adds a span that is clear. AS_NO_MEMORY.
bool as_span_add(as_span_vec *spans, uint64_t start, uint64_t end, struct as_error *err);

// Makes the span that begins at `start` end earlier.
void as_span_cut(as_span_vec *spans, uint64_t start, uint64_t end);

// Whether an arena's lists hold exactly the chunks that the walk found free, without following them: each bin is a ring, so
// over all members and heads of bins the forward links are the same addresses as the members and heads themselves,
// in another order, and so are the backward links. Sums over scrambled addresses tell; they cost nothing that the
// walk does not read anyway, where following lists is a cache miss for each member.
struct as_bin_sums {
    uint64_t nodes, forward, back; // sums over scrambled addresses
};

// A bijection (a step of splitmix64), so that no two wrong addresses make a right sum but by rare chance.
static inline uint64_t as_scramble(uint64_t address)
{
    address ^= address >> 30;
    address *= UINT64_C(0xbf58476d1ce4e5b9);
    return address ^ address >> 27;
}

static inline void as_bin_sums_add(struct as_bin_sums *l, uint64_t node, uint64_t forward, uint64_t back)
{
    l->nodes += as_scramble(node);
    l->forward += as_scramble(forward);
    l->back += as_scramble(back);
}

enum { AS_NONCONTIGUOUS = 2 }; // malloc_state.flags: brk was not enough once

// One arena: malloc_state as read, in this machine's terms.
struct as_arena {
    uint64_t address;
    const struct as_libc *libc;
    uint32_t libc_index;
    bool main;
    uint32_t mutex, flags;
    uint64_t top, top_size;
    uint64_t next;
    uint64_t system_mem, max_system_mem, attached_threads; // AS_UNKNOWN where the version has no such field
    uint64_t fastbins[10];
    struct as_bin_sums bin_sums; // of the chunks that the walk found binned (bins.h)
};

// One region to walk. A heap of a thread arena, or a segment of the main arena.
struct as_heap {
    enum as_heap_kind kind;
    uint32_t arena;         // index
    uint64_t start;         // heap_info, or the segment's first byte
    uint64_t first_chunk;   // where chunks begin
    uint64_t end;           // of what malloc uses; for a segment of the main arena: no chunk lies beyond
    uint64_t protected_end; // of the read-write part
    bool has_top;           // the arena's top lies here
    uint64_t malloc_state;  // the arena's header within this heap, or 0
};

// One mmapped chunk and the mapping that was made for it.
struct as_mmapped {
    uint64_t map_start, map_end; // the whole of it: to the end of a huge page
    uint64_t counted;            // its length as mp_.mmapped_mem counts it
    uint64_t chunk, size;        // chunk: its header
    // AS_CHUNK_TCACHE: freed, and parked in a tcache (2.43+ with tcache_max); AS_CHUNK_METADATA: a tcache_perthread_struct
    // (mmap_threshold below its size); else AS_CHUNK_IN_USE.
    enum as_chunk_class class;
    uint32_t libc_index;
};

// mp_, as read. AS_UNKNOWN where the version has no such field, or where mp_ was not found.
struct as_par {
    uint64_t trim_threshold, top_pad, mmap_threshold, arena_test, arena_max, no_dyn_threshold;
    uint64_t thp_pagesize, hp_pagesize, tcache_count, tcache_max_bytes;
    uint64_t n_mmaps, mmapped_mem, sbrk_base;
    uint64_t heap_max; // HEAP_MAX_SIZE in force
};

// A thread's part in malloc.
struct as_thread_use {
    uint64_t tcache;                     // address of tcache_perthread_struct; 0: none; AS_UNKNOWN: not found
    uint64_t tcache_count, tcache_bytes; // chunks cached; AS_UNKNOWN likewise
    uint32_t arena;                      // index, UINT32_MAX when not known or none
    bool tcache_invalid;                 // it has one, and that makes no sense: tcache is AS_UNKNOWN, never 0
};

// A tcache_perthread_struct that is not in as_thread_use: a thread's in another libc than the first.
struct as_other_tcache {
    uint64_t address;
    uint32_t libc_index;
};

// A tcache that no thread has: of a parent's threads after a fork, or of a thread that ended and had used another libc than
// its own. The chunks in it are free, and no thread can use them again.
struct as_lost_tcache {
    uint64_t address;
    uint32_t libc_index;
    uint64_t count, bytes; // chunks in it
};

// A place where the heap is not what it should be.
struct as_fault {
    uint64_t address;
    uint32_t arena, heap; // UINT32_MAX: none
    const char *what;
};

// All that is known before the chunks are walked, for every glibc malloc of the target.
struct as_heaps {
    struct as_target *target;
    const struct as_malloc *malloc;
    const as_span_vec *foreign; // whole pages that are proven to be divided by another allocator; NULL: none are known
    AS_VEC(struct as_par) pars; // parallel to malloc->libcs
    AS_VEC(struct as_arena) arenas;
    AS_VEC(struct as_heap) heaps;      // by arena; thread arenas' oldest heap first
    as_span_vec spans;                 // what the heaps occupy
    AS_VEC(struct as_mmapped) mmapped; // by address
    // What the threads' tcaches hold: address | enum as_chunk_class, ascending; and the chunks that hold a
    // tcache_perthread_struct (AS_CHUNK_METADATA). Fastbins come later (fastbins.h).
    AS_VEC(uint64_t) cached;
    uint64_t max_cached;                  // there is no room for more: a longer list is damaged
    AS_VEC(struct as_thread_use) threads; // parallel to target->threads
    AS_VEC(struct as_other_tcache) other_tcaches;
    AS_VEC(struct as_lost_tcache) lost_tcaches; // not sought by as_heaps_find: see orphan_tcaches.h
    // Chunks in use that the walk passed and that resemble a tcache_perthread_struct: addresses of the struct. Those that
    // are all zeros (an empty one, up to 2.41) are only counted, and `zero_candidates_likely` of them are the first chunk of
    // a thread arena that no thread is attached to.
    AS_VEC(uint64_t) tcache_candidates;
    uint64_t zero_candidates, zero_candidate_bytes, zero_candidates_likely;
    bool candidates_missed;  // some are not in the list: memory ran out
    int64_t tcache_distance; // of the first libc's variable tcache from the thread pointer; 0: not known
    // Parallel to malloc->libcs: every thread's tcache of that libc is in `threads` or `other_tcaches`.
    AS_VEC(bool) tcaches_known;
    AS_VEC(struct as_fault) faults;
    // Maps of blocks that the program freed and that malloc could not unmap (mmapped_conflicts.h); ambiguous: which of `mmapped` these
    // are is unknown, and none has been left out.
    uint64_t munmap_failed, munmap_failed_bytes;
    bool munmap_failed_ambiguous;
    uint64_t ambiguous_segment_bytes; // of main arenas' segments that may as well be another main arena's
    bool incomplete; // malloc has memory that `heaps` does not list: an arena, or a heap's header, could not be read
    bool tcache_searched;   // the caches were found by their structure, not through the threads
    uint64_t resync_budget; // addresses that may still be tried for a chunk behind a torn one
    uint64_t search_budget; // headers that may still be followed in the search for the main arena's segments
};

void as_heaps_free(struct as_heaps *h);

// The span of the heap that holds an address, or NULL.
static inline const struct as_span *as_heaps_at(const struct as_heaps *h, uint64_t address)
{
    const struct as_span *span = as_span_from(&h->spans, address);
    return span && span->start <= address ? span : NULL;
}

// Places where the heap is not what it should be. A fault is no failure: the finder notes it, leaves out what it cannot
// tell, and continues.

// Adds to h->faults; beyond 1000 of them, or where our memory ran out, it does not. `arena`, `heap`: indices, UINT32_MAX: none.
// `address`: AS_UNKNOWN: none. `what` must live as long as `h`.
void as_fault_note(struct as_heaps *h, uint32_t arena, uint32_t heap, uint64_t address, const char *what);

// The same, and sets h->incomplete: the rest of what the arena has is out of reach.
void as_fault_note_incomplete(struct as_heaps *h, uint32_t arena, uint64_t address, const char *what);

// The fault that means: nothing is known to be wrong with the heap, but mp_ was not found, which is needed to read all of it.
// Compared by address.
extern const char AS_FAULT_NO_MP[];
