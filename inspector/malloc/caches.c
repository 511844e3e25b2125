// SPDX-License-Identifier: MIT
// What the application has freed and malloc keeps at hand for its threads: the members of every tcache bin. Such chunks
// look used to their neighbours; only these lists tell.
#include "base/sort.h"
#include "malloc/faults.h"
#include "malloc/heaps.h"
#include "malloc/peek.h"

#include <string.h>

enum {
    SMALL_BINS = 64,        // tcache bins of one chunk size each (TCACHE_SMALL_BINS, TCACHE_MAX_BINS before 2.42)
    MAX_COUNT = UINT16_MAX, // glibc.malloc.tcache_count's own limit
    MAX_MAPPED = 1 << 16,   // mmapped chunks that tcaches may hold besides (2.43)
};

struct list_chunk {
    uint64_t prev_size, size, link, key;
};

static uint64_t reveal(const struct as_heaps *h, const struct as_libc *libc, uint64_t position, uint64_t link)
{
    uint64_t pointer = libc->layout.heap.safe_linking ? (position >> 12) ^ link : link;
    // With memory tagging (aarch64 MTE) the top byte is a tag.
    return h->target->arch == AS_ARCH_AARCH64 ? pointer & (UINT64_MAX >> 8) : pointer;
}

// `limit`: mp_.tcache_count.
static uint16_t bin_count(const struct as_heap_layout *layout, uint64_t limit, const uint8_t *bytes, int bin)
{
    uint16_t value = 0;
    memcpy(&value, bytes + bin * layout->tcache_count_size, (size_t)layout->tcache_count_size);
    return layout->tcache_counts_down ? (uint16_t)(limit - value) : value;
}

static uint64_t bin_entry(const struct as_heap_layout *layout, const uint8_t *bytes, int bin)
{
    uint64_t value;
    memcpy(&value, bytes + layout->tcache_entries + 8 * bin, sizeof value);
    return value;
}

// Do a tcache's counts and lists agree, if no list may be longer than `limit`?
static bool agrees(const struct as_heaps *h, const struct as_heap_layout *layout, uint64_t limit, const uint8_t *bytes)
{
    for (int bin = 0; bin < layout->tcache_bins; bin++) {
        uint16_t count = bin_count(layout, limit, bytes, bin);
        uint64_t entry = bin_entry(layout, bytes, bin);
        if (count > limit || (count == 0) != (entry == 0))
            return false;
        if (entry == 0)
            continue;
        if (entry % AS_ALIGNMENT != 0 || !as_target_mapping_at(h->target, entry))
            return false;
    }
    return true;
}

bool as_tcache_plausible(const struct as_heaps *h, const struct as_libc *libc, const struct as_par *par,
                         const uint8_t *bytes)
{
    const struct as_heap_layout *layout = &libc->layout.heap;
    if (layout->tcache_counts_down && par->tcache_count > MAX_COUNT)
        return false; // without mp_.tcache_count the numbers mean nothing
    return agrees(h, layout, par->tcache_count < MAX_COUNT ? par->tcache_count : MAX_COUNT, bytes);
}

// The arena whose heap holds `address`; NULL: none's.
static const struct as_arena *arena_around(const struct as_heaps *h, uint64_t address)
{
    for (size_t i = 0; as_heaps_at(h, address) && i < h->heaps.count; i++)
        if (address >= h->heaps.items[i].start && address < h->heaps.items[i].end)
            return &h->arenas.items[h->heaps.items[i].arena];
    return NULL;
}

// A map that was made for a tcache_perthread_struct holds it and no more: `size` is what its header says.
static bool fits_own_map(const struct as_heaps *h, uint32_t libc_index, uint64_t chunk, const struct list_chunk *c)
{
    const struct as_heap_layout *layout = &h->malloc->libcs.items[libc_index].layout.heap;
    const struct as_mapping *m = as_target_mapping_at(h->target, chunk);
    uint64_t page = h->target->page_size;
    uint64_t huge = h->pars.items[libc_index].hp_pagesize;
    uint64_t unit = huge != AS_UNKNOWN && huge > page ? huge : page;
    uint64_t size = c->size & ~(uint64_t)AS_FLAG_BITS;
    uint64_t whole = size + (uint64_t)layout->mmap_extra;
    return m && m->kind == AS_MAP_ANON && (m->prot & AS_PROT_WRITE) && chunk % page == 0 && c->prev_size <= 1 &&
           (c->size & AS_FLAG_BITS) == AS_IS_MMAPPED && whole % page == 0 && size > (uint64_t)layout->tcache_size &&
           whole <= ((uint64_t)layout->tcache_size + 3 * AS_ALIGNMENT + unit - 1) / unit * unit;
}

bool as_tcache_placed(const struct as_heaps *h, uint32_t libc_index, uint64_t address)
{
    struct list_chunk c;
    bool in_heap = as_heaps_at(h, address) != NULL;
    if (address % AS_ALIGNMENT != 0 || (!in_heap && address % h->target->page_size != AS_HEADER) ||
        !as_target_mapping_at(h->target, address) || !as_target_read(h->target, address - AS_HEADER, &c, sizeof c))
        return false;
    if (!in_heap)
        return fits_own_map(h, libc_index, address - AS_HEADER, &c);
    if (!as_tcache_chunk_size(&h->malloc->libcs.items[libc_index].layout.heap, c.size & ~(uint64_t)AS_FLAG_BITS))
        return false;
    const struct as_arena *arena = h->malloc->libcs.count > 1 ? arena_around(h, address) : NULL;
    return !arena || arena->libc_index == libc_index;
}

// Would it be a tcache in use if mp_.tcache_count were another? From 2.42 on an empty bin says which.
static bool contradicts_limit(const struct as_heaps *h, const struct as_heap_layout *layout, const uint8_t *bytes)
{
    uint64_t limit = 0;
    bool holds = false;
    for (int bin = 0; bin < layout->tcache_bins; bin++) {
        uint16_t free_slots = bin_count(layout, 0, bytes, bin);
        free_slots = (uint16_t)-free_slots;
        limit = free_slots > limit ? free_slots : limit;
        holds |= bin_entry(layout, bytes, bin) != 0;
    }
    return layout->tcache_counts_down && holds && agrees(h, layout, limit, bytes);
}

// How many chunks all caches can hold together, at most: as many as there is room for.
static uint64_t most_cached(const struct as_heaps *h)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < h->spans.count; i++)
        bytes += h->spans.items[i].end - h->spans.items[i].start;
    return bytes / AS_MIN_CHUNK + MAX_MAPPED;
}

static bool remember(struct as_heaps *h, uint64_t chunk, enum as_chunk_class class, struct as_error *err)
{
    uint64_t *place = as_vec_add(&h->cached, err);
    if (place)
        *place = chunk | class;
    return place != NULL;
}

// What a tcache was found to hold.
struct contents {
    uint64_t count, bytes;
    uint64_t key; // tcache_entry.key of all its chunks
    bool keys_differ;
};

// What is wrong with a tcache's entry, or NULL: then *c is its chunk.
static const char *wrong_entry(const struct as_heaps *h, struct as_peek *peek, int bin, uint64_t entry,
                               struct list_chunk *c)
{
    if (h->cached.count >= h->most_cached)
        return "tcaches hold more chunks than there is room for";
    if (entry == 0 || entry % AS_ALIGNMENT != 0 || !as_peek(peek, entry - AS_HEADER, c, sizeof *c))
        return "a tcache list is broken";
    uint64_t size = c->size & ~(uint64_t)AS_FLAG_BITS;
    uint64_t wanted = AS_MIN_CHUNK + (uint64_t)bin * AS_ALIGNMENT;
    bool fits = bin < SMALL_BINS ? size == wanted : size >= wanted && size % AS_ALIGNMENT == 0;
    return fits ? NULL : "a chunk in a tcache bin has another size than the bin";
}

// Follows one bin of a tcache. Adds to `sum`.
static bool tcache_bin(struct as_heaps *h, const struct as_libc *libc, struct as_peek *peek, int bin, uint64_t entry,
                       uint64_t expected, struct contents *sum, struct as_error *err)
{
    uint64_t tortoise = 0; // Brent: a cycle comes back to the place remembered at the last power of two
    for (uint64_t n = 0; n < expected; n++) {
        struct list_chunk c;
        bool cycle = entry == tortoise && n > 0;
        const char *wrong = cycle ? "a tcache list comes back to itself" : wrong_entry(h, peek, bin, entry, &c);
        if (wrong) {
            as_fault_note(h, UINT32_MAX, UINT32_MAX, entry, wrong);
            return true;
        }
        if ((n & (n - 1)) == 0)
            tortoise = entry;
        if (!remember(h, entry - AS_HEADER, AS_CHUNK_TCACHE, err))
            return false;
        sum->keys_differ |= sum->count > 0 && c.key != sum->key;
        sum->key = c.key;
        sum->count++;
        sum->bytes += c.size & ~(uint64_t)AS_FLAG_BITS;
        entry = reveal(h, libc, entry, c.link);
    }
    if (entry != 0)
        as_fault_note(h, UINT32_MAX, UINT32_MAX, entry, "a tcache list is longer than its count");
    return true;
}

// One thread's tcache: its struct's own chunk, and all that it holds. Where it cannot be read there is a fault, and `sum` is as
// it was.
static bool tcache_read(struct as_heaps *h, uint32_t libc_index, struct as_peek *peek, uint64_t address,
                        struct contents *sum, struct as_error *err)
{
    const struct as_libc *libc = &h->malloc->libcs.items[libc_index];
    const struct as_heap_layout *layout = &libc->layout.heap;
    uint8_t bytes[AS_TCACHE_BYTES];
    if ((size_t)layout->tcache_size > sizeof bytes ||
        !as_target_read(h->target, address, bytes, (size_t)layout->tcache_size)) {
        as_fault_note(h, UINT32_MAX, UINT32_MAX, address, "a thread's tcache cannot be read");
        return true;
    }
    if (!remember(h, address - AS_HEADER, AS_CHUNK_METADATA, err))
        return false;
    for (int bin = 0; bin < layout->tcache_bins; bin++)
        if (!tcache_bin(h, libc, peek, bin, bin_entry(layout, bytes, bin),
                        bin_count(layout, h->pars.items[libc_index].tcache_count, bytes, bin), sum, err))
            return false;
    return true;
}

bool as_tcache_read(struct as_heaps *h, uint32_t libc_index, uint64_t address, uint64_t *count, uint64_t *bytes,
                    uint64_t *key, struct as_error *err)
{
    struct as_peek peek;
    struct contents sum = {0};
    if (!as_peek_open(&peek, h->target, err))
        return false;
    bool ok = tcache_read(h, libc_index, &peek, address, &sum, err);
    as_peek_close(&peek);
    *count = sum.count;
    *bytes = sum.bytes;
    *key = sum.keys_differ ? 0 : sum.key;
    return ok;
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
        if (as_chunk_class(batch[i]) != AS_CHUNK_IN_USE || !as_tcache_chunk_size(c->layout, as_chunk_size(batch[i])))
            continue;
        uint64_t *place = as_vec_add(&c->found, c->err);
        if (!place)
            return false;
        *place = batch[i].address + AS_HEADER;
    }
    return true;
}

static bool holds_something(const struct as_heap_layout *layout, const uint8_t *bytes)
{
    for (int i = 0; i < layout->tcache_size; i++)
        if (bytes[i] != 0)
            return true;
    return false;
}

// Without thread pointers: a tcache is a chunk in use of the right size, whose counts agree with its lists. An empty one of
// before 2.42 is all zeros and cannot be told from the application's: it holds nothing, so only its own 600 bytes count as in
// use. `known` are those that threads gave.
//
// *none: there is no tcache at all, as no chunk can be one. That is sure only where the whole heap could be walked.
static bool tcaches_search(struct as_heaps *h, uint32_t libc_index, struct as_peek *peek, bool *none,
                           struct as_error *err)
{
    const struct as_libc *libc = &h->malloc->libcs.items[libc_index];
    const struct as_heap_layout *layout = &libc->layout.heap;
    struct candidates c = {
        .sink = {.chunks = collect},
        .layout = layout,
        .err = err,
    };
    struct as_window w;
    if (!as_window_open(&w, h->target, err))
        return false;
    bool ok = true;
    size_t faults = h->faults.count;
    uint64_t torn = 0;
    for (uint32_t i = 0; ok && i < h->heaps.count; i++) {
        struct as_heap before = h->heaps.items[i];
        if (h->arenas.items[before.arena].libc_index == libc_index)
            ok = as_walk_heap(h, i, &w, &c.sink, NULL, &torn);
        h->heaps.items[i] = before;
        h->arenas.items[before.arena].links = (struct as_links){0};
    }
    h->faults.count = faults; // the walk that counts will note them again
    as_window_close(&w);
    for (size_t i = 0; ok && i < h->mmapped.count; i++) {
        const struct as_mmapped *m = &h->mmapped.items[i];
        if (m->chunk != m->map_start || !as_tcache_placed(h, libc_index, m->chunk + AS_HEADER))
            continue;
        uint64_t *place = as_vec_add(&c.found, err);
        ok = place != NULL;
        if (place)
            *place = m->chunk + AS_HEADER;
    }
    *none = ok && torn == 0 && !h->missing;
    for (size_t i = 0; ok && i < c.found.count; i++) {
        uint8_t bytes[AS_TCACHE_BYTES];
        size_t first = h->cached.count;
        size_t first_fault = h->faults.count;
        if (!as_target_read(h->target, c.found.items[i], bytes, (size_t)layout->tcache_size) ||
            !holds_something(layout, bytes) || !as_tcache_plausible(h, libc, &h->pars.items[libc_index], bytes)) {
            *none &= layout->tcache_counts_down; // else it may be an empty one
            if (contradicts_limit(h, layout, bytes)) {
                *none = false;
                as_fault_note(h, UINT32_MAX, UINT32_MAX, c.found.items[i],
                              "a thread's tcache does not agree with mp_.tcache_count");
            }
            continue;
        }
        *none = false;
        ok = tcache_read(h, libc_index, peek, c.found.items[i], &(struct contents){0}, err);
        if (h->faults.count != first_fault) { // its lists are none: it was the application's after all
            h->faults.count = first_fault;
            h->cached.count = first;
        }
    }
    as_vec_free(&c.found);
    return ok;
}

static void drop_duplicates(struct as_heaps *h)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->cached.count; i++) {
        uint64_t entry = h->cached.items[i];
        if (kept > 0 && (h->cached.items[kept - 1] ^ entry) < AS_ALIGNMENT) {
            as_fault_note(h, UINT32_MAX, UINT32_MAX, entry & ~(uint64_t)(AS_ALIGNMENT - 1),
                          "a chunk is in two lists at once");
            continue;
        }
        h->cached.items[kept++] = entry;
    }
    h->cached.count = kept;
}

static bool tcache_of_thread(struct as_heaps *h, struct as_peek *peek, struct as_thread_use *use, struct as_error *err)
{
    struct contents sum = {0};
    size_t faults = h->faults.count;
    if (!tcache_read(h, 0, peek, use->tcache, &sum, err))
        return false;
    bool unread = h->faults.count != faults && sum.count == 0;
    use->tcache_count = unread ? AS_UNKNOWN : sum.count;
    use->tcache_bytes = unread ? AS_UNKNOWN : sum.bytes;
    return true;
}

bool as_caches_find(struct as_heaps *h, struct as_error *err)
{
    struct as_peek peek;
    if (!as_peek_open(&peek, h->target, err))
        return false;
    h->most_cached = most_cached(h);
    bool ok = true;
    bool unknown = h->threads.count == 0;
    for (size_t i = 0; ok && i < h->threads.count; i++) {
        struct as_thread_use *use = &h->threads.items[i];
        if (use->tcache == AS_UNKNOWN)
            unknown = true;
        else if (use->tcache == 0)
            use->tcache_count = use->tcache_bytes = 0;
        else
            ok = tcache_of_thread(h, &peek, use, err);
    }
    for (size_t i = 0; ok && i < h->others.count; i++)
        ok = tcache_read(h, h->others.items[i].libc_index, &peek, h->others.items[i].address, &(struct contents){0},
                         err);
    for (size_t i = 0; ok && i < h->lost.count; i++) {
        struct as_lost_tcache *lost = &h->lost.items[i];
        struct contents sum = {0};
        ok = tcache_read(h, lost->libc_index, &peek, lost->address, &sum, err);
        lost->count = sum.count;
        lost->bytes = sum.bytes;
    }
    for (uint32_t i = 0; ok && i < h->malloc->libcs.count; i++) {
        if (!as_has_tcache(h, i) || (i == 0 ? !unknown : h->reached.items[i]))
            continue;
        h->tcache_searched = true;
        bool none = false;
        ok = as_sort_u64(h->cached.items, h->cached.count, err) && tcaches_search(h, i, &peek, &none, err);
        for (size_t k = 0; i == 0 && none && k < h->threads.count; k++)
            if (h->threads.items[k].tcache == AS_UNKNOWN && !h->threads.items[k].tcache_odd)
                h->threads.items[k].tcache = h->threads.items[k].tcache_count = h->threads.items[k].tcache_bytes = 0;
    }
    ok = ok && as_sort_u64(h->cached.items, h->cached.count, err);
    drop_duplicates(h);
    as_peek_close(&peek);
    return ok;
}

void as_caches_check(struct as_heaps *h)
{
    size_t mapped = 0;
    for (size_t i = 0; i < h->cached.count; i++) {
        uint64_t chunk = h->cached.items[i] & ~(uint64_t)(AS_ALIGNMENT - 1);
        while (mapped < h->mmapped.count && h->mmapped.items[mapped].map_end <= chunk)
            mapped++;
        bool is_mmapped = mapped < h->mmapped.count && h->mmapped.items[mapped].chunk == chunk;
        if (!is_mmapped && !as_heaps_at(h, chunk)) // those that lie in a heap the walk has seen
            as_fault_note(h, UINT32_MAX, UINT32_MAX, chunk, "a tcache holds a chunk that is in no heap");
    }
}
