// SPDX-License-Identifier: MIT
// glibc's heap as it lies in memory: arenas, their heaps, the chunks in them, what is cached, what was mmapped.
// Reads a target with a known layout; knows nothing of pages, residency or ledgers. Every value that comes from the
// target is checked before it is used: a hostile heap costs bounded time and memory, and is reported.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "libc/libc.h"
#include "malloc/bins.h"
#include "malloc/spans.h"
#include "model/records.h"
#include "target/target.h"

// malloc.c's constants on LP64 (MALLOC_ALIGNMENT, MINSIZE, CHUNK_HDR_SZ) and the flag bits of a size field.
enum {
    AS_ALIGNMENT = 16,
    AS_MIN_CHUNK = 32,
    AS_HEADER = 16,
    AS_PREV_INUSE = 1,
    AS_IS_MMAPPED = 2,
    AS_NON_MAIN_ARENA = 4,
    AS_FLAG_BITS = 7,
    AS_TCACHE_BYTES = 1024, // no tcache_perthread_struct is larger; the largest known has 760
};

// A chunk on its way from the walk to whoever counts it: its class in the low bits of its size, as sizes are multiples
// of AS_ALIGNMENT.
struct as_chunk {
    uint64_t address;
    uint64_t tagged;
};
static inline uint64_t as_chunk_size(struct as_chunk c)
{
    return c.tagged & ~(uint64_t)(AS_ALIGNMENT - 1);
}
static inline enum as_chunk_class as_chunk_class(struct as_chunk c)
{
    return (enum as_chunk_class)(c.tagged & (AS_ALIGNMENT - 1));
}

// Receives chunks in address order and without gaps, in batches that fit the first-level cache. False stops the walk.
struct as_chunk_sink {
    bool (*chunks)(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t count);
};

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
    struct as_links links; // of the chunks that the walk found binned (bins.h)
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
    bool tcache_odd;                     // it has one, and that makes no sense: tcache is AS_UNKNOWN, never 0
};

// A tcache_perthread_struct that is not in as_thread_use: a thread's in another libc than the first.
struct as_other_tcache {
    uint64_t address;
    uint32_t libc_index;
};

// A tcache that no thread has: of a parent's threads after a fork, or of a thread that ended and had used another libc than
// its own. What is in it is free, and nobody can take it out again.
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
    AS_VEC(struct as_par) pars; // parallel to malloc->libcs
    AS_VEC(struct as_arena) arenas;
    AS_VEC(struct as_heap) heaps;      // by arena; thread arenas' oldest heap first
    as_span_vec spans;                 // what the heaps occupy
    AS_VEC(struct as_mmapped) mmapped; // by address
    // What the threads' tcaches hold: address | enum as_chunk_class, ascending; and the chunks that hold a
    // tcache_perthread_struct (AS_CHUNK_METADATA). Fastbins come later (fastbins.h).
    AS_VEC(uint64_t) cached;
    uint64_t most_cached;                 // no more of them are believed
    AS_VEC(struct as_thread_use) threads; // parallel to target->threads
    AS_VEC(struct as_other_tcache) others;
    AS_VEC(struct as_lost_tcache) lost; // not sought by as_heaps_find: see as_caches_lost
    // Chunks in use that the walk came by and that look like a tcache_perthread_struct: addresses of the struct. Those that
    // are all zeros (an empty one, up to 2.41) are only counted, and `blank_heads` of them are the first chunk of a thread
    // arena that nobody is attached to.
    AS_VEC(uint64_t) strays;
    uint64_t blanks, blank_bytes, blank_heads;
    bool strays_missed;      // some are not in the list: memory ran out
    int64_t tcache_distance; // of the first libc's variable tcache from the thread pointer; 0: not known
    AS_VEC(bool) reached; // parallel to malloc->libcs: every thread's tcache of that libc is in `threads` or `others`
    AS_VEC(struct as_fault) faults;
    uint64_t forgotten,
        forgotten_bytes;   // maps of blocks that the program freed and malloc could not unmap (surplus.c),
    bool forgotten_untold; // and which of `mmapped` these are cannot be told: none has been left out
    uint64_t untold_bytes; // of main arenas' segments that may as well be another main arena's
    bool missing; // malloc has memory that `heaps` does not list: an arena, or a heap's header, could not be read
    bool tcache_searched; // the caches were found by their structure, not through the threads
    uint64_t sync_left;   // places that may still be tried where the walk has lost the thread
    uint64_t search_left; // headers that may still be followed in the search for the main arena's segments
};

// Finds arenas, heaps, caches and threads; as_heaps_find_mmapped completes it with the mmapped chunks. False only when our
// memory ran out; what the target has wrong is in `faults`. `out` is to be freed in either case.
bool as_heaps_find(struct as_target *t, const struct as_malloc *m, struct as_heaps *out, struct as_error *err);
void as_heaps_free(struct as_heaps *h);
// Finds all anew, and takes what is in h->lost for caches. As as_heaps_find.
bool as_heaps_find_again(struct as_heaps *h, struct as_error *err);

// Reads mp_ and arena after arena of one libc into h (arenas.c).
bool as_arenas_read(struct as_heaps *h, uint32_t libc_index, struct as_error *err);

// True when an arena's lock is held right now. From outside this is only half the truth: a
// single-threaded process does not lock.
bool as_arenas_locked(struct as_target *t, const struct as_malloc *m);

// The heaps of one arena, oldest first; of a main arena only the first segment (segments.c).
bool as_segments_find(struct as_heaps *h, uint32_t arena, struct as_error *err);

// Once that is done: finds where main arenas go on whose first segment does not hold their top, and inserts those heaps behind
// it. `only`: of this one arena; UINT32_MAX: of all (elsewhere.c).
bool as_segments_complete(struct as_heaps *h, uint32_t only, struct as_error *err);

// To be called when the walk of a heap of the main arena ended at fenceposts below the top (has_top was true and is false
// now): finds where the arena goes on and inserts those heaps behind `heap`.
bool as_segments_after(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_error *err);

// After the walk of all of an arena's heaps: whether its bins hold what the walk found free, no more and no less (bins.c).
void as_bins_check(struct as_heaps *h, uint32_t arena);

// After the walk and as_mmapped_find: whether all that the caches hold lies in a heap or a mapping of malloc's (caches.c).
void as_caches_check(struct as_heaps *h);

// After a walk: puts those strays into h->lost that are tcaches, which is certain only where the target stood still. *found:
// there is one that was not there yet; what was counted of its chunks as in use is wrong, and all is to be found and walked
// again. AS_NO_MEMORY, also where memory ran out in the walk (lost.c).
bool as_caches_lost(struct as_heaps *h, bool *found, struct as_error *err);

// Notes a chunk in use if it looks like a tcache_perthread_struct: `bytes` are layout.tcache_size of them (lost.c).
void as_caches_suspect(struct as_heaps *h, const struct as_arena *arena, uint64_t chunk, uint64_t size,
                       const uint8_t *bytes);

// Threads' tcaches and arenas (threads.c), then the members of their lists (caches.c).
bool as_threads_find(struct as_heaps *h, struct as_error *err);
bool as_caches_find(struct as_heaps *h, struct as_error *err);

// Every place that may hold a tcache_perthread_struct has malloc's header before it, in a heap of that libc's, or in a map
// of its own where mmap_threshold is below its size. True: `address` is such a place (caches.c).
bool as_tcache_placed(const struct as_heaps *h, uint32_t libc_index, uint64_t address);

// True if `bytes` (layout.tcache_size of them, read at `address`) can be a tcache_perthread_struct in use (caches.c).
bool as_tcache_plausible(const struct as_heaps *h, const struct as_libc *libc, const struct as_par *par,
                         const uint8_t *bytes);

// False where a libc's threads have no tcache: before 2.26.
static inline bool as_has_tcache(const struct as_heaps *h, uint32_t libc_index)
{
    return h->malloc->libcs.items[libc_index].layout.heap.tcache_size > 0;
}

// Adds a tcache's chunk and all that it holds to h->cached, and what these are to *count and *bytes (caches.c). *key: what
// all of them have in common (tcache_entry.key), 0 where they differ or there are none.
bool as_tcache_read(struct as_heaps *h, uint32_t libc_index, uint64_t address, uint64_t *count, uint64_t *bytes,
                    uint64_t *key, struct as_error *err);

// Sizes of the chunk that holds a tcache_perthread_struct: as large as asked for, or up to 16 bytes more where the rest would
// have been too small for a chunk of its own, and up to 16 more again from 2.43, whose tcache_init rounds twice.
static inline uint64_t as_tcache_chunk_least(const struct as_heap_layout *layout)
{
    return ((uint64_t)layout->tcache_size + 8 + AS_ALIGNMENT - 1) & ~(uint64_t)(AS_ALIGNMENT - 1);
}
static inline uint64_t as_tcache_chunk_most(const struct as_heap_layout *layout)
{
    return as_tcache_chunk_least(layout) + (layout->tcache_counts_down ? 2 : 1) * AS_ALIGNMENT;
}
static inline bool as_tcache_chunk_size(const struct as_heap_layout *layout, uint64_t size)
{
    return size >= as_tcache_chunk_least(layout) && size <= as_tcache_chunk_most(layout);
}

// The mmapped chunks of every libc, by stepping through the anonymous mappings that nothing else claims (mmapped.c).
bool as_mmapped_find(struct as_heaps *h, struct as_error *err);
// Drops the `count` maps, `bytes` long together, that h->mmapped holds too many (surplus.c): those that are forgotten (below),
// or the program's own memory. False: which they are, cannot be told; h->forgotten says how many are forgotten ones.
bool as_mmapped_drop_surplus(struct as_heaps *h, uint64_t count, uint64_t bytes);
// Can this map be a forgotten one: a block that the program freed, and that stays, for munmap refuses a part of a huge page?
bool as_mmapped_forgettable(const struct as_heaps *h, const struct as_mmapped *m);

// Says of each mmapped chunk what the caches know of it, after both have been found (mmapped.c).
void as_mmapped_classify(struct as_heaps *h);

// The span of the heap that holds an address, or NULL.
static inline const struct as_span *as_heaps_at(const struct as_heaps *h, uint64_t address)
{
    const struct as_span *span = as_span_from(&h->spans, address);
    return span && span->start <= address ? span : NULL;
}

// One arena's part of `h` for a worker of its own: out->heaps are the `count` of them from index `first` on, its spans (where
// the walk may change them), faults and budgets are its own; all else is h's, which the worker may read, and its arena. Not to
// be freed but by as_heaps_join. AS_NO_MEMORY.
bool as_heaps_part(const struct as_heaps *h, uint32_t arena, size_t first, size_t count, struct as_heaps *out,
                   struct as_error *err);
// Puts what the walk made of such a part back in place of the `count` heaps from index `first` on, and frees it. The parts of
// arenas are joined in their order, so that index is also where the arena's heaps begin in the store. AS_NO_MEMORY.
bool as_heaps_join(struct as_heaps *h, struct as_heaps *part, size_t first, size_t count, struct as_error *err);

// Walks one heap from `start` to `end`: every byte of it goes to `sink` as part of exactly one chunk. Where the chain of
// sizes breaks, the bytes up to the next place where it holds again are AS_CHUNK_UNKNOWN, a fault is noted, and *torn
// counts it. Members of fastbins are handed on as in use, and noted in `notes` (which may be NULL).
struct as_fast_notes;
bool as_walk_heap(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_chunk_sink *sink,
                  struct as_fast_notes *notes, uint64_t *torn);

// How a chain of chunks ends that begins at `address`.
enum as_chain_end { AS_CHAIN_BROKEN, AS_CHAIN_LIMIT, AS_CHAIN_FENCEPOST };
// Follows the sizes from `address` up to `limit`, at most `max_chunks` of them (then AS_CHAIN_LIMIT). *end: where it ended;
// for a fencepost: just behind both of them. A probe of up to AS_CHAIN_PROBE chunks leaves the window where it is.
enum { AS_CHAIN_PROBE = 32 };
enum as_chain_end as_chain_follow(struct as_window *w, uint64_t address, uint64_t limit, bool main_arena,
                                  uint64_t max_chunks, uint64_t *end);
