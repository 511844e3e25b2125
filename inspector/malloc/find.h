// SPDX-License-Identifier: MIT
// The finders in their order: each relies on what those before it have found.
#pragma once

#include "malloc/heaps.h"

// Finds arenas, heaps, threads, mmapped chunks and caches: all that has to be known before the chunks are walked. False only
// when our memory ran out (AS_NO_MEMORY); what the target has wrong is in `faults`. `out` is to be freed in either case.
// `foreign`: see as_heaps; NULL: none is known.
bool as_heaps_find(struct as_target *t, const struct as_malloc *m, const as_span_vec *foreign, struct as_heaps *out,
                   struct as_error *err);

// Finds all anew, and takes what is in h->lost_tcaches for caches. As as_heaps_find.
bool as_heaps_find_again(struct as_heaps *h, struct as_error *err);

// Which thread uses which arena and which tcache, with no symbols: both are thread-local variables of libc (tcache and
// thread_arena), so each lies at one and the same distance from every thread's thread pointer. Every word of the static
// TLS is a candidate; the distance at which the most threads' words make sense is the answer.

// Fills in h->threads, h->other_tcaches and h->tcaches_known. AS_NO_MEMORY.
bool as_threads_find(struct as_heaps *h, struct as_error *err);

// Mmapped chunks. No list holds them and neighbouring maps merge into one mapping, so they are found by stepping from map
// to map: a map begins with a chunk header (at its very start, or behind the lead that aligned_alloc left) whose
// sizes say where the map ends. mp_.n_mmaps and mp_.mmapped_mem tell when all have been found.

// The mmapped chunks of every libc, by stepping through the anonymous mappings that nothing else claims. What does not agree
// with mp_ is a fault. AS_NO_MEMORY.
bool as_mmapped_find(struct as_heaps *h, struct as_error *err);

// Says of each mmapped chunk what the caches know of it, after both have been found.
void as_mmapped_classify(struct as_heaps *h);

// More maps resemble mmapped chunks than mp_.n_mmaps says. Either memory of the program's own
// resembles one: a page that begins with zero and a round number with bit 1 set (Java's tables do). Or malloc could not
// unmap it: with hugetlb pages, glibc 2.35 to 2.42 lets realloc shrink a block to a part of a huge page, which munmap refuses
// to take when the block is freed; malloc counts it as gone, and nothing in it tells. mp_.mmapped_mem says which are too
// many: those that together are as long as the excess, if only one choice of them is.

// Drops the `count` maps, `bytes` long together, that h->mmapped holds too many: those that malloc could not unmap (below),
// or the program's own memory. False: which they are is unknown; h->munmap_failed says how many malloc could not unmap.
bool as_mmapped_drop_surplus(struct as_heaps *h, uint64_t count, uint64_t bytes);
// Can this map be a block that the program freed and that stays mapped, because munmap refuses a part of a huge page?
bool as_mmapped_munmap_can_fail(const struct as_heaps *h, const struct as_mmapped *m);

// The members of every tcache bin: chunks that the application has freed and that malloc keeps
// for its threads. Such chunks seem used by the flags of their neighbours; only the lists tell.

// After as_threads_find and as_mmapped_find: fills in h->cached, ascending, and what each thread's tcache holds. AS_NO_MEMORY.
bool as_caches_find(struct as_heaps *h, struct as_error *err);

// After the walk: whether all that the caches hold lies in a heap or a mapping of malloc's. A fault for each chunk that does
// not.
void as_caches_check(struct as_heaps *h);

// Tcaches that no thread has. After a fork the parent's other threads are gone in the child, and with them whoever could
// empty their tcaches; and a thread that ends empties the tcache of its own libc, but not one that it has in another
// (dlmopen). The struct itself still says so, as a chunk in use whose counts and lists agree. The walk passes all of them.

// After a walk: adds those of h->tcache_candidates to h->lost_tcaches that are tcaches, which is certain only where the
// target stood still. *found: there is one that was not there yet; what was counted of its chunks as in use is wrong, and all
// is to be found and walked again. AS_NO_MEMORY, also where memory ran out in the walk.
bool as_lost_tcaches_find(struct as_heaps *h, bool *found, struct as_error *err);

// Notes a chunk in use if it resembles a tcache_perthread_struct: `bytes` are layout.tcache_size of them.
void as_lost_candidate_add(struct as_heaps *h, const struct as_arena *arena, uint64_t chunk, uint64_t size,
                           const uint8_t *bytes);

// An arena anew: between the time when the arenas were listed and the one when an arena's lock was got, threads went on, and
// its heaps grew, came and went.

// Reads one arena and its heaps anew, now that its lock is held, and puts them in the place of those that as_heaps_find saw a
// while ago, from heaps.items[first] on. *done: false where that cannot be read, and is left as it was. False: AS_NO_MEMORY.
bool as_heaps_refresh(struct as_heaps *h, uint32_t arena, uint32_t first, bool *done, struct as_error *err);

// malloc_state and malloc_par: the circular list of arenas, and the tunables in force.

// Reads mp_ and arena after arena of one libc into h->pars and h->arenas. What cannot be read is a fault. AS_NO_MEMORY.
bool as_arenas_read(struct as_heaps *h, uint32_t libc_index, struct as_error *err);

// An arena that was never used has its own bin as its top (initial_top), whose "size" is no size.
static inline bool as_is_initial_top(const struct as_libc *libc, uint64_t arena, uint64_t top)
{
    return top - arena < (uint64_t)libc->layout.state.size;
}

// True when an arena's lock is held right now. From outside this is only half the truth: a
// single-threaded process does not lock.
bool as_arenas_locked(struct as_target *t, const struct as_malloc *m);

// One arena's part of all that was found, for a worker of its own, and what the worker made of it put back.

// One arena's part of `h` for a worker of its own: out->heaps are the `count` of them from index `first` on, its spans (where
// the walk may change them), faults and budgets are its own; all else is h's, which the worker may read, and its arena. Not to
// be freed but by as_heaps_join. AS_NO_MEMORY.
bool as_heaps_split(const struct as_heaps *h, uint32_t arena, size_t first, size_t count, struct as_heaps *out,
                    struct as_error *err);
// Puts what the walk made of such a part back in place of the `count` heaps from index `first` on, and frees it. The parts of
// arenas are joined in their order, so that index is also where the arena's heaps begin in the store. AS_NO_MEMORY.
bool as_heaps_join(struct as_heaps *h, struct as_heaps *part, size_t first, size_t count, struct as_error *err);
