// SPDX-License-Identifier: MIT
#include "base/sort.h"
#include "malloc/find.h"
#include "malloc/heaps.h"
#include "malloc/tcache.h"
#include "malloc/walk.h"

#include <string.h>

enum { MAX_MAPPED = 1 << 16 }; // mmapped chunks that tcaches may also hold (2.43)

// How many chunks all caches can hold together, at most: as many as there is room for.
static uint64_t most_cached(const struct as_heaps *h)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < h->spans.count; i++)
        bytes += h->spans.items[i].end - h->spans.items[i].start;
    return bytes / AS_MIN_CHUNK + MAX_MAPPED;
}

// Collects the places that may hold a tcache_perthread_struct: chunks in use of its size.
struct candidates {
    struct as_chunk_sink sink;
    const struct as_heap_layout *layout;
    AS_VEC(uint64_t) found;
    struct as_error *err;
};

static bool collect(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t count)
{
    struct candidates *c = (struct candidates *)sink;
    for (size_t i = 0; i < count; i++) {
        if (as_chunk_class_of(batch[i]) != AS_CHUNK_IN_USE || !as_tcache_chunk_size(c->layout, as_chunk_size(batch[i])))
            continue;
        if (!as_vec_push(&c->found, c->err, batch[i].address + AS_HEADER))
            return false;
    }
    return true;
}

// By a walk of the libc's heaps. All that the walk notes besides, the walk that counts will note again.
static bool collect_from_heaps(struct as_heaps *h, uint32_t libc_index, struct candidates *c, uint64_t *torn)
{
    struct as_window w;
    if (!as_window_open(&w, h->target, c->err))
        return false;
    const struct as_heaps before = *h;
    bool ok = true;
    for (uint32_t i = 0; ok && i < h->heaps.count; i++) {
        struct as_heap heap = h->heaps.items[i];
        if (h->arenas.items[heap.arena].libc_index == libc_index)
            ok = as_walk_heap(h, i, &w, &c->sink, NULL, torn);
        h->heaps.items[i] = heap;
        h->arenas.items[heap.arena].bin_sums = (struct as_bin_sums){0};
    }
    h->faults.count = before.faults.count;
    h->tcache_candidates.count = before.tcache_candidates.count;
    h->zero_candidates = before.zero_candidates;
    h->zero_candidate_bytes = before.zero_candidate_bytes;
    h->zero_candidates_likely = before.zero_candidates_likely;
    as_window_close(&w);
    return ok;
}

// Structs in mappings of their own.
static bool collect_from_mmapped(const struct as_heaps *h, uint32_t libc_index, struct candidates *c)
{
    AS_FOR_EACH(const struct as_mmapped, m, &h->mmapped) {
        if (m->chunk != m->map_start || !as_tcache_placed(h, libc_index, m->chunk + AS_HEADER))
            continue;
        if (!as_vec_push(&c->found, c->err, m->chunk + AS_HEADER))
            return false;
    }
    return true;
}

// Reads a candidate if it is a tcache. *none becomes false where it is one, or can be one.
static bool read_candidate(struct as_heaps *h, uint32_t libc_index, struct as_page_cache *cache, uint64_t address,
                           bool *none, struct as_error *err)
{
    const struct as_libc *libc = &h->malloc->libcs.items[libc_index];
    const struct as_heap_layout *layout = &libc->layout.heap;
    uint8_t bytes[AS_TCACHE_BYTES];
    size_t cached = h->cached.count;
    size_t faults = h->faults.count;
    if (!as_tcache_copy(h->target, layout, address, bytes)) {
        *none = false;
        return true;
    }
    if (as_tcache_is_zero(layout, bytes) || !as_tcache_plausible(h, libc, &h->pars.items[libc_index], bytes)) {
        *none &= layout->tcache_counts_down; // else it may be an empty one
        if (as_tcache_contradicts_limit(h, layout, bytes)) {
            *none = false;
            as_fault_note(h, UINT32_MAX, UINT32_MAX, address, "a thread's tcache does not agree with mp_.tcache_count");
        }
        return true;
    }
    *none = false;
    bool ok = as_tcache_read(h, libc_index, cache, address, &(struct as_tcache_contents){0}, err);
    if (h->faults.count != faults) { // its lists are none: it was the application's after all
        h->faults.count = faults;
        h->cached.count = cached;
    }
    return ok;
}

// Without thread pointers: a tcache is a chunk in use of the right size, whose counts agree with its lists. An empty one of
// before 2.42 is all zeros and cannot be told from the application's: it holds nothing, so only its own 600 bytes count as in
// use.
//
// *none: there is no tcache at all, as no chunk can be one. That is sure only where the whole heap could be walked.
static bool tcaches_search(struct as_heaps *h, uint32_t libc_index, struct as_page_cache *cache, bool *none,
                           struct as_error *err)
{
    struct candidates c = {
        .sink = {.chunks = collect},
        .layout = &h->malloc->libcs.items[libc_index].layout.heap,
        .err = err,
    };
    uint64_t torn = 0;
    bool ok = collect_from_heaps(h, libc_index, &c, &torn) && collect_from_mmapped(h, libc_index, &c);
    *none = ok && torn == 0 && !h->incomplete;
    for (size_t i = 0; ok && i < c.found.count; i++)
        ok = read_candidate(h, libc_index, cache, c.found.items[i], none, err);
    as_vec_free(&c.found);
    return ok;
}

static void drop_duplicates(struct as_heaps *h)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->cached.count; i++) {
        uint64_t entry = h->cached.items[i];
        if (kept > 0 && (h->cached.items[kept - 1] ^ entry) < AS_ALIGNMENT) {
            as_fault_note(h, UINT32_MAX, UINT32_MAX, as_untagged(entry), "a chunk is in two lists at once");
            continue;
        }
        h->cached.items[kept++] = entry;
    }
    h->cached.count = kept;
}

static bool tcache_of_thread(struct as_heaps *h, struct as_page_cache *cache, struct as_thread_use *use,
                             struct as_error *err)
{
    struct as_tcache_contents sum = {0};
    size_t faults = h->faults.count;
    if (!as_tcache_read(h, 0, cache, use->tcache, &sum, err))
        return false;
    bool unread = h->faults.count != faults && sum.count == 0;
    use->tcache_count = unread ? AS_UNKNOWN : sum.count;
    use->tcache_bytes = unread ? AS_UNKNOWN : sum.bytes;
    return true;
}

bool as_caches_find(struct as_heaps *h, struct as_error *err)
{
    struct as_page_cache cache;
    if (!as_page_cache_open(&cache, h->target, err))
        return false;
    h->max_cached = most_cached(h);
    bool ok = true;
    bool unknown = h->threads.count == 0;
    AS_FOR_EACH_WHILE(ok, struct as_thread_use, use, &h->threads) {
        if (use->tcache == AS_UNKNOWN)
            unknown = true;
        else if (use->tcache == 0)
            use->tcache_count = use->tcache_bytes = 0;
        else
            ok = tcache_of_thread(h, &cache, use, err);
    }
    for (size_t i = 0; ok && i < h->other_tcaches.count; i++)
        ok = as_tcache_read(h, h->other_tcaches.items[i].libc_index, &cache, h->other_tcaches.items[i].address,
                            &(struct as_tcache_contents){0}, err);
    AS_FOR_EACH_WHILE(ok, struct as_lost_tcache, lost, &h->lost_tcaches) {
        struct as_tcache_contents sum = {0};
        ok = as_tcache_read(h, lost->libc_index, &cache, lost->address, &sum, err);
        lost->count = sum.count;
        lost->bytes = sum.bytes;
    }
    for (uint32_t i = 0; ok && i < h->malloc->libcs.count; i++) {
        if (!as_has_tcache(h, i) || (i == 0 ? !unknown : h->tcaches_known.items[i]))
            continue;
        h->tcache_searched = true;
        bool none = false;
        ok = as_sort_u64(h->cached.items, h->cached.count, err) && tcaches_search(h, i, &cache, &none, err);
        for (size_t k = 0; i == 0 && none && k < h->threads.count; k++)
            if (h->threads.items[k].tcache == AS_UNKNOWN && !h->threads.items[k].tcache_invalid)
                h->threads.items[k].tcache = h->threads.items[k].tcache_count = h->threads.items[k].tcache_bytes = 0;
    }
    ok = ok && as_sort_u64(h->cached.items, h->cached.count, err);
    drop_duplicates(h);
    as_page_cache_close(&cache);
    return ok;
}

void as_caches_check(struct as_heaps *h)
{
    size_t mapped = 0;
    for (size_t i = 0; i < h->cached.count; i++) {
        uint64_t chunk = as_untagged(h->cached.items[i]);
        while (mapped < h->mmapped.count && h->mmapped.items[mapped].map_end <= chunk)
            mapped++;
        bool is_mmapped = mapped < h->mmapped.count && h->mmapped.items[mapped].chunk == chunk;
        if (!is_mmapped && !as_heaps_at(h, chunk)) // those that lie in a heap the walk has seen
            as_fault_note(h, UINT32_MAX, UINT32_MAX, chunk, "a tcache holds a chunk that is in no heap");
    }
}
