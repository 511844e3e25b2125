// SPDX-License-Identifier: MIT
#include "base/align.h"
#include "base/sort.h"
#include "malloc/find.h"
#include "malloc/tcache.h"

#include <string.h>

// Is it the chunk with which a thread arena begins whose threads are all gone? Its first thread's tcache was allocated there.
// (Of another libc than the first glibc does not notice that a thread ends.)
static bool is_first_of_arena(const struct as_arena *arena, uint64_t chunk)
{
    uint64_t first = as_align_up(arena->address + (uint64_t)arena->libc->layout.state.size, AS_ALIGNMENT);
    return !arena->main && arena->attached_threads == 0 && chunk == first;
}

void as_lost_candidate_add(struct as_heaps *h, const struct as_arena *arena, uint64_t chunk, uint64_t size,
                           const uint8_t *bytes)
{
    const struct as_libc *libc = arena->libc;
    const struct as_heap_layout *layout = &libc->layout.heap;
    if (!as_tcache_plausible(h, libc, &h->pars.items[arena->libc_index], bytes))
        return;
    if (as_tcache_is_zero(layout, bytes)) {
        h->zero_candidates++;
        h->zero_candidate_bytes += size;
        h->zero_candidates_likely += arena->libc_index > 0 || is_first_of_arena(arena, chunk);
        return;
    }
    h->candidates_missed |= !as_vec_push(&h->tcache_candidates, NULL, chunk + AS_HEADER);
}

static bool is_known(const struct as_heaps *h, uint64_t address)
{
    size_t at = as_lower_bound(h->cached.items, h->cached.count, address - AS_HEADER);
    return at < h->cached.count && (h->cached.items[at] ^ (address - AS_HEADER)) < AS_ALIGNMENT;
}

// The key that malloc puts into what it caches: before 2.34 the tcache's own address, from then on the same everywhere; none
// up to 2.28, whose layout is that of 2.29.
static bool key_fits(const struct as_heap_layout *layout, uint64_t address, uint64_t key)
{
    return layout->tcache_count_size == 1 || (layout->safe_linking ? key != 0 : key == address);
}

// Is it a chunk of malloc's that no cache among the first `count` of h->cached holds?
static bool is_unclaimed(const struct as_heaps *h, size_t count, uint64_t chunk)
{
    size_t at = as_lower_bound(h->cached.items, count, chunk);
    if (at < count && (h->cached.items[at] ^ chunk) < AS_ALIGNMENT)
        return false;
    bool mapped = false;
    for (size_t i = 0; !mapped && !as_heaps_at(h, chunk) && i < h->mmapped.count; i++)
        mapped = h->mmapped.items[i].chunk == chunk;
    return mapped || as_heaps_at(h, chunk);
}

// Adds the struct at `address` to h->lost_tcaches if its lists lead through chunks of malloc's that no other tcache holds.
static bool add_lost(struct as_heaps *h, uint32_t libc_index, struct as_page_cache *cache, uint64_t address,
                     struct as_error *err)
{
    struct as_lost_tcache lost = {.address = address, .libc_index = libc_index};
    size_t cached = h->cached.count;
    size_t faults = h->faults.count;
    struct as_tcache_contents sum = {0};
    if (!as_tcache_read(h, libc_index, cache, address, &sum, err))
        return false;
    lost.count = sum.count;
    lost.bytes = sum.bytes;
    bool ok = h->faults.count == faults && (lost.count == 0 || key_fits(&h->malloc->libcs.items[libc_index].layout.heap,
                                                                        address, sum.keys_differ ? 0 : sum.key));
    for (size_t i = cached + 1; ok && i < h->cached.count; i++)
        ok = is_unclaimed(h, cached, as_untagged(h->cached.items[i]));
    h->cached.count = cached;
    h->faults.count = faults;
    struct as_lost_tcache *place = ok ? as_vec_add(&h->lost_tcaches, err) : NULL;
    if (place)
        *place = lost;
    return !ok || place;
}

// The libc whose heap or whose map of its own a candidate is in.
static bool classify_candidate(struct as_heaps *h, struct as_page_cache *cache, uint64_t address, struct as_error *err)
{
    for (uint32_t i = 0; i < h->malloc->libcs.count; i++) {
        if (!as_has_tcache(h, i) || !h->tcaches_known.items[i] || !as_tcache_placed(h, i, address) ||
            is_known(h, address))
            continue;
        size_t before = h->lost_tcaches.count;
        if (!add_lost(h, i, cache, address, err))
            return false;
        if (h->lost_tcaches.count != before)
            break;
    }
    return true;
}

// Maps that hold one struct and no more are not walked.
static bool add_mmapped_candidates(struct as_heaps *h, struct as_error *err)
{
    AS_FOR_EACH(const struct as_mmapped, m, &h->mmapped) {
        uint8_t bytes[AS_TCACHE_BYTES];
        // Where the threshold is not below its size no such struct was mmapped.
        for (uint32_t k = 0; m->class == AS_CHUNK_IN_USE && m->chunk == m->map_start && k < h->malloc->libcs.count;
             k++) {
            const struct as_libc *libc = &h->malloc->libcs.items[k];
            const struct as_heap_layout *layout = &libc->layout.heap;
            if (!as_has_tcache(h, k) || h->pars.items[k].mmap_threshold > as_tcache_chunk_most(layout) ||
                !as_tcache_placed(h, k, m->chunk + AS_HEADER) ||
                !as_tcache_copy(h->target, layout, m->chunk + AS_HEADER, bytes) ||
                !as_tcache_plausible(h, libc, &h->pars.items[k], bytes))
                continue;
            bool zero = as_tcache_is_zero(layout, bytes);
            uint64_t *place = zero ? NULL : as_vec_add(&h->tcache_candidates, err);
            if (!zero && !place)
                return false;
            if (place)
                *place = m->chunk + AS_HEADER;
            h->zero_candidates += zero;
            h->zero_candidate_bytes += zero ? m->size : 0;
            h->zero_candidates_likely += zero && h->malloc->libcs.count > 1;
            break;
        }
    }
    return true;
}

// The tcache of a thread of the parent's, whose structure begins at `tp`; 0: it had none, or it is not empty.
static uint64_t zero_tcache_of(const struct as_heaps *h, uint64_t tp)
{
    const struct as_heap_layout *layout = &h->malloc->libcs.items[0].layout.heap;
    uint8_t bytes[AS_TCACHE_BYTES];
    uint64_t address;
    bool zero = as_target_read_u64(h->target, tp + (uint64_t)h->tcache_distance, &address) &&
                as_tcache_placed(h, 0, address) && layout->tcache_size <= AS_TCACHE_BYTES &&
                as_target_read(h->target, address, bytes, (size_t)layout->tcache_size) &&
                as_tcache_is_zero(layout, bytes);
    return zero ? address : 0;
}

// An empty tcache of up to 2.41 does not show what it is. But after a fork libc keeps the stacks of the parent's threads, for new
// ones, and at the end of each lies the structure of its thread as it was: with its own address, twice (x86-64), and near it, in
// the variable tcache, that of the struct. (A thread that ends sets the variable to 0.)
static bool add_zero_candidates(struct as_heaps *h, struct as_error *err)
{
    enum { TAIL = 8192, ALIGNED = 64, SELF = 2 };
    const struct as_target *t = h->target;
    uint64_t words[TAIL / sizeof(uint64_t)];
    for (size_t i = 1; t->arch == AS_ARCH_X86_64 && h->tcache_distance != 0 && i < t->mappings.count; i++) {
        const struct as_mapping *m = &t->mappings.items[i];
        // (Below a stack lies its guard.)
        if (m->kind != AS_MAP_ANON || !(m->prot & AS_PROT_WRITE) || m->end - m->start < TAIL || m[-1].end != m->start ||
            m[-1].prot != 0)
            continue;
        memset(words, 0, sizeof words);
        for (uint64_t at = 0; at < TAIL; at += t->page_size)
            as_target_read_resident(h->target, m->end - TAIL + at, (uint8_t *)words + at, t->page_size);
        for (size_t k = 0; k + SELF < TAIL / sizeof words[0]; k += ALIGNED / sizeof words[0]) {
            uint64_t tp = m->end - TAIL + k * sizeof words[0];
            uint64_t address = words[k] == tp && words[k + SELF] == tp ? zero_tcache_of(h, tp) : 0;
            uint64_t *place = address != 0 ? as_vec_add(&h->tcache_candidates, err) : NULL;
            if (place)
                *place = address;
            else if (address != 0)
                return false;
        }
    }
    return true;
}

bool as_lost_tcaches_find(struct as_heaps *h, bool *found, struct as_error *err)
{
    size_t before = h->lost_tcaches.count;
    *found = false;
    if (h->candidates_missed)
        return as_fail(err, AS_NO_MEMORY, "no memory for the list of tcaches that no thread has");
    if (!add_mmapped_candidates(h, err) || (h->zero_candidates > 0 && !add_zero_candidates(h, err)))
        return false;
    struct as_page_cache cache;
    if (!as_page_cache_open(&cache, h->target, err))
        return false;
    bool ok = true;
    for (size_t i = 0; ok && i < h->tcache_candidates.count; i++)
        ok = classify_candidate(h, &cache, h->tcache_candidates.items[i], err);
    as_page_cache_close(&cache);
    *found = h->lost_tcaches.count != before;
    return ok;
}
