// SPDX-License-Identifier: MIT
// The walk: from chunk to chunk by their sizes, telling apart what is in use, cached, binned, top and bookkeeping.
//
// A chunk says nothing of itself: whether it is in a bin stands in the NEXT chunk's PREV_INUSE bit, and a chunk in a
// tcache or fastbin seem used: those come from the lists (h->cached), merged in by address during the walk.
#include "malloc/walk.h"
#include "base/sort.h"
#include "malloc/chain.h"
#include "malloc/find.h"
#include "malloc/tcache.h"

#include <string.h>

enum {
    BATCH = 512,  // chunks handed on at a time: 8 KiB, half of a first-level cache
    AHEAD = 8192, // bytes to fetch ahead of the walk: far enough to hide a memory access, near enough to stay cached
    // Chunks that must follow each other flawlessly before a lost walk trusts its place again.
    SYNC_CHAIN = AS_CHAIN_PROBE,
    SYNC_COST = 16, // of following one header, where trying a place costs 1: it may be far away
};

struct walk {
    struct as_heaps *heaps;
    uint32_t heap_index;
    struct as_arena *arena;
    struct as_heap heap;
    struct as_window *window;
    struct as_chunk_sink *sink;
    struct as_fastbin_candidates *candidates; // NULL: not wanted
    const uint64_t *cached, *cached_end;
    uint64_t limit; // where the chain must arrive: the top, or the heap's end
    struct as_chunk batch[BATCH];
    size_t count;
    struct as_bin_sums bin_sums; // of the arena's binned chunks
    uint64_t max_candidate;      // size of the largest chunk worth a note
    // Sizes of chunks that may hold a tcache_perthread_struct, from and how many bytes on; and how large that is. 0: none.
    uint64_t tcache_least, tcache_range;
    size_t tcache_size;
    bool going;       // the sink wants more
    bool target_runs; // the target's threads run during the walk
};

static void flush(struct walk *k)
{
    if (k->count > 0 && k->going)
        k->going = k->sink->chunks(k->sink, k->batch, k->count);
    k->count = 0;
}

static inline void emit(struct walk *k, uint64_t address, uint64_t size, enum as_chunk_class class)
{
    if (size == 0)
        return;
    k->batch[k->count++] = (struct as_chunk){.address = address, .tagged = size | class};
    if (k->count == BATCH)
        flush(k);
}

static void fault(struct walk *k, uint64_t address, const char *what)
{
    as_fault_note(k->heaps, k->heap.arena, k->heap_index, address, what);
}

// The lists of caches hold addresses before `address` at which no chunk in use begins. No fault of the arena's where threads go
// on, which may have freed these chunks for good since the lists were read.
static void report_missed_cached(struct walk *k, uint64_t address)
{
    for (; k->cached < k->cached_end && (as_untagged(*k->cached)) < address; k->cached++)
        as_fault_note(k->heaps, k->target_runs ? UINT32_MAX : k->heap.arena,
                      k->target_runs ? UINT32_MAX : k->heap_index, as_untagged(*k->cached),
                      "a cached chunk is not where a chunk in use begins");
}

// The class of a chunk whose successor says that it is in use.
static inline enum as_chunk_class class_in_use(struct walk *k, uint64_t address)
{
    report_missed_cached(k, address);
    if (k->cached < k->cached_end && (as_untagged(*k->cached)) == address)
        return as_tag(*k->cached++);
    return AS_CHUNK_IN_USE;
}

// The first word of a chunk's memory: the link, if it is in a fastbin. ~0 when it cannot be read, which is no link.
static inline uint64_t link_at(struct as_window *w, uint64_t chunk)
{
    const uint8_t *bytes = as_window_at(w, chunk, AS_MIN_CHUNK);
    uint64_t link = UINT64_MAX;
    if (bytes)
        memcpy(&link, bytes + AS_HEADER, sizeof link);
    return link;
}

// Adds a binned chunk to the sums that are compared with its arena's bins (bins.h). The window may have moved past the chunk.
static void add_bin_sums(struct walk *k, uint64_t chunk)
{
    struct {
        struct as_chunk_header header;
        uint64_t forward, back;
    } free;
    const struct as_window *w = k->window;
    bool near = chunk >= w->address && w->length >= sizeof free && chunk - w->address <= w->length - sizeof free;
    if (near)
        memcpy(&free, w->bytes + (chunk - w->address), sizeof free);
    if (near || as_target_read(w->target, chunk, &free, sizeof free))
        as_bin_sums_add(&k->bin_sums, chunk, free.forward, free.back);
}

// The first place at or after `from` where the chain holds again; the limit when there is none.
static uint64_t resynchronise(struct walk *k, uint64_t from)
{
    struct as_heaps *h = k->heaps;
    for (uint64_t at = from; at < k->limit && h->resync_budget > 0; at += AS_ALIGNMENT) {
        struct as_chunk_header header;
        h->resync_budget--;
        if (!as_header_at(k->window, at, &header))
            return k->limit;
        if (!as_is_chunk_size(header.size, at, k->limit, k->arena->main))
            continue;
        uint64_t end;
        enum as_chain_end how = as_chain_follow(k->window, at, k->limit, k->arena->main, SYNC_CHAIN, &end);
        uint64_t tried = (end - at) / AS_MIN_CHUNK + 1;
        uint64_t cost = SYNC_COST * (tried < SYNC_CHAIN ? tried : SYNC_CHAIN);
        h->resync_budget -= cost < h->resync_budget ? cost : h->resync_budget;
        if (how != AS_CHAIN_BROKEN)
            return at;
    }
    return k->limit;
}

// Everything from the fencepost on is bookkeeping; in the main arena the heap ends right behind it.
static void end_at_fencepost(struct walk *k, uint64_t address, uint64_t behind)
{
    if (k->arena->main)
        k->heap.end = behind;
    emit(k, address, k->heap.end - address, AS_CHUNK_METADATA);
}

// Follows the chain as far as it lies in the window and nothing about it is special, and returns where it stopped. All
// but a few of a heap's chunks pass through here: no call, no copy, one cache line each, fetched ahead of time.
static uint64_t follow_in_window(struct walk *k, uint64_t address)
{
    const struct as_window *w = k->window;
    uint64_t end = w->address + w->length < k->limit ? w->address + w->length : k->limit;
    if (address < w->address || address >= end)
        return address;
    const uint64_t refused = AS_IS_MMAPPED | 8 | (k->arena->main ? AS_NON_MAIN_ARENA : 0);
    const uint64_t required = k->arena->main ? 0 : AS_NON_MAIN_ARENA; // of a chunk in use
    const uintptr_t base = (uintptr_t)w->bytes - w->address;          // where address 0 would be
    uint64_t next_cached = k->cached < k->cached_end ? as_untagged(*k->cached) : UINT64_MAX;
    while (end - address > AS_MIN_CHUNK) {
        const uint64_t *chunk = (const uint64_t *)(base + address);
        __builtin_prefetch((const void *)(base + address + AHEAD));
        uint64_t head = chunk[1];
        uint64_t size = as_chunksize(head);
        if ((head & refused) || size < AS_MIN_CHUNK || size > end - address - AS_HEADER || address >= next_cached)
            break;
        const uint64_t *next = (const uint64_t *)(base + address + size);
        bool binned = !(next[1] & AS_PREV_INUSE);
        if (binned ? next[0] != size : (head & required) != required)
            break;
        if (binned)
            as_bin_sums_add(&k->bin_sums, address, chunk[2], chunk[3]);
        else if (size - k->tcache_least <= k->tcache_range)
            as_lost_candidate_add(k->heaps, k->arena, address, size, (const uint8_t *)&chunk[2]);
        else if (size <= k->max_candidate)
            as_fastbin_candidate_add(k->candidates, address, size, chunk[2]);
        k->batch[k->count++] =
            (struct as_chunk){.address = address, .tagged = size | (binned ? AS_CHUNK_BINNED : AS_CHUNK_IN_USE)};
        address += size;
        if (k->count == BATCH) {
            flush(k);
            if (!k->going)
                break;
        }
    }
    return address;
}

// A copy of what a chunk holds that may be a tcache_perthread_struct. False: it cannot be one.
static bool copy_tcache(struct walk *k, uint64_t chunk, uint64_t size, uint8_t *out)
{
    const uint8_t *bytes =
        size - k->tcache_least <= k->tcache_range ? as_window_at(k->window, chunk, AS_HEADER + k->tcache_size) : NULL;
    if (bytes)
        memcpy(out, bytes + AS_HEADER, k->tcache_size);
    return bytes != NULL;
}

// Follows the chain from `address` to its end. Returns where it broke, or 0 when it did not: then everything up to the
// heap's end (without the top) has been handed on. *pending: the last chunk whose own end is not proven.
static uint64_t follow_chain(struct walk *k, uint64_t address, uint64_t *pending)
{
    bool main_arena = k->arena->main;
    struct as_chunk_header header;
    *pending = address;
    if (address == k->limit)
        return 0;
    if (!as_header_at(k->window, address, &header))
        return address;
    while (k->going) {
        uint64_t passed = follow_in_window(k, address);
        if (passed != address) {
            address = passed;
            *pending = address;
            if (!as_header_at(k->window, address, &header))
                return address;
        }
        uint64_t behind = as_fencepost_end(k->window, address, header.size, k->limit, main_arena, as_header_at);
        if (behind != 0 && !k->heap.has_top) {
            end_at_fencepost(k, address, behind);
            return 0;
        }
        if (behind != 0 && main_arena) { // foreign sbrk: the arena continues at a higher address
            k->heap.has_top = false;
            end_at_fencepost(k, address, behind);
            return 0;
        }
        if (!as_is_chunk_size(header.size, address, k->limit, main_arena))
            return address;
        uint64_t size = as_chunksize(header.size);
        uint64_t next = address + size;
        *pending = address;
        if (next == k->limit && !k->heap.has_top)
            return next; // a heap without the top ends in a fencepost, not flush
        // Read before the window moves on to the next chunk.
        uint64_t link = k->candidates && size <= k->max_candidate ? link_at(k->window, address) : 0;
        uint8_t inside[AS_TCACHE_BYTES];
        bool copied = copy_tcache(k, address, size, inside);
        struct as_chunk_header after;
        if (!as_header_at(k->window, next, &after))
            return next;
        bool binned = !(after.size & AS_PREV_INUSE);
        if (binned && after.prev_size != size)
            return next;
        if (!binned && !main_arena && !(header.size & AS_NON_MAIN_ARENA))
            return next;
        enum as_chunk_class class = binned ? AS_CHUNK_BINNED : class_in_use(k, address);
        if (binned)
            add_bin_sums(k, address);
        if (copied && class == AS_CHUNK_IN_USE)
            as_lost_candidate_add(k->heaps, k->arena, address, size, inside);
        // Running threads may have moved the chunk from a tcache to a fastbin since the tcaches were read.
        bool noted = class == AS_CHUNK_IN_USE || (k->target_runs && class == AS_CHUNK_TCACHE);
        if (noted && k->candidates && size <= k->max_candidate)
            as_fastbin_candidate_add(k->candidates, address, size, link);
        emit(k, address, size, class);
        address = next;
        *pending = address;
        if (address == k->limit)
            return 0;
        header = after;
    }
    return 0;
}

bool as_walk_heap(struct as_heaps *h, uint32_t heap, struct as_window *w, struct as_chunk_sink *sink,
                  struct as_fastbin_candidates *candidates, uint64_t *torn)
{
    struct walk k = {
        .heaps = h,
        .heap_index = heap,
        .heap = h->heaps.items[heap],
        .window = w,
        .sink = sink,
        .candidates = candidates && candidates->bins != 0 ? candidates : NULL,
        .going = true,
    };
    for (int bin = 0; k.candidates && bin < 16; bin++)
        if (candidates->bins & (1 << bin))
            k.max_candidate = AS_MIN_CHUNK + (uint64_t)bin * AS_ALIGNMENT;
    k.target_runs =
        h->target->kind == AS_TARGET_SELF || (h->target->kind == AS_TARGET_PROCESS && !h->target->stop.active);
    k.arena = &h->arenas.items[k.heap.arena];
    k.bin_sums = k.arena->bin_sums;
    k.limit = k.heap.has_top ? k.arena->top : k.heap.end;
    const struct as_heap_layout *layout = &k.arena->libc->layout.heap;
    k.tcache_least = UINT64_MAX;
    if (layout->tcache_size > 0 && layout->tcache_size <= AS_TCACHE_BYTES) {
        k.tcache_size = (size_t)layout->tcache_size;
        k.tcache_least = as_tcache_chunk_least(layout);
        k.tcache_range = as_tcache_chunk_most(layout) - k.tcache_least;
    }
    if (h->cached.count > 0) {
        k.cached = h->cached.items + as_lower_bound(h->cached.items, h->cached.count, k.heap.start);
        k.cached_end = h->cached.items + as_lower_bound(h->cached.items, h->cached.count, k.heap.end);
    }

    w->limit = k.heap.end;
    emit(&k, k.heap.start, k.heap.first_chunk - k.heap.start, AS_CHUNK_METADATA);
    uint64_t address = k.heap.first_chunk;
    uint64_t pending;
    while (k.going) {
        uint64_t broken = follow_chain(&k, address, &pending);
        if (broken == 0)
            break;
        ++*torn;
        struct as_chunk_header header;
        bool read = as_header_at(k.window, broken, &header);
        fault(&k, broken, read ? "a chunk's size or flags cannot be right" : "a chunk cannot be read");
        // The chunk before the break has an end that nothing confirms: it is part of what is not known.
        address = resynchronise(&k, broken < k.limit ? broken + AS_ALIGNMENT : broken);
        emit(&k, pending, address - pending, AS_CHUNK_UNKNOWN);
        if (address >= k.limit)
            break;
    }
    if (k.heap.has_top && k.going)
        emit(&k, k.limit, k.heap.end - k.limit, AS_CHUNK_TOP);
    flush(&k);
    report_missed_cached(&k, k.heap.end);
    // What the walk learnt of the heap's shape.
    h->heaps.items[heap].end = k.heap.end;
    h->heaps.items[heap].has_top = k.heap.has_top;
    k.arena->bin_sums = k.bin_sums;
    return k.going;
}
