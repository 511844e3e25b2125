// SPDX-License-Identifier: MIT
#include "malloc/tcache.h"
#include "base/cycle.h"

#include <string.h>

enum {
    SMALL_BINS = 64,        // tcache bins of one chunk size each (TCACHE_SMALL_BINS, TCACHE_MAX_BINS before 2.42)
    MAX_COUNT = UINT16_MAX, // glibc.malloc.tcache_count's own limit
};

struct list_chunk {
    uint64_t prev_size, size, link, key;
};

static uint64_t unmangle_link(const struct as_heaps *h, const struct as_libc *libc, uint64_t position, uint64_t link)
{
    uint64_t pointer = as_reveal_ptr(libc->layout.heap.safe_linking, position, link);
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
static bool counts_agree(const struct as_heaps *h, const struct as_heap_layout *layout, uint64_t limit,
                         const uint8_t *bytes)
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
    return counts_agree(h, layout, par->tcache_count < MAX_COUNT ? par->tcache_count : MAX_COUNT, bytes);
}

bool as_tcache_contradicts_limit(const struct as_heaps *h, const struct as_heap_layout *layout, const uint8_t *bytes)
{
    uint64_t limit = 0;
    bool holds = false;
    for (int bin = 0; bin < layout->tcache_bins; bin++) {
        uint16_t free_slots = bin_count(layout, 0, bytes, bin);
        free_slots = (uint16_t)-free_slots;
        limit = free_slots > limit ? free_slots : limit;
        holds |= bin_entry(layout, bytes, bin) != 0;
    }
    return layout->tcache_counts_down && holds && counts_agree(h, layout, limit, bytes);
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
    uint64_t size = as_chunksize(c->size);
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
    if (!as_tcache_chunk_size(&h->malloc->libcs.items[libc_index].layout.heap, as_chunksize(c.size)))
        return false;
    const struct as_arena *arena = h->malloc->libcs.count > 1 ? arena_around(h, address) : NULL;
    return !arena || arena->libc_index == libc_index;
}

static bool add_cached(struct as_heaps *h, uint64_t chunk, enum as_chunk_class class, struct as_error *err)
{
    return as_vec_push(&h->cached, err, chunk | class);
}

// What is wrong with a tcache's entry, or NULL: then *c is its chunk.
static const char *wrong_entry(const struct as_heaps *h, struct as_page_cache *cache, int bin, uint64_t entry,
                               struct list_chunk *c)
{
    if (h->cached.count >= h->max_cached)
        return "tcaches hold more chunks than there is room for";
    if (entry == 0 || entry % AS_ALIGNMENT != 0 || !as_page_cache_read(cache, entry - AS_HEADER, c, sizeof *c))
        return "a tcache list is broken";
    uint64_t size = as_chunksize(c->size);
    uint64_t wanted = AS_MIN_CHUNK + (uint64_t)bin * AS_ALIGNMENT;
    bool fits = bin < SMALL_BINS ? size == wanted : size >= wanted && size % AS_ALIGNMENT == 0;
    return fits ? NULL : "a chunk in a tcache bin has another size than the bin";
}

// Follows one bin of a tcache. Adds to `sum`.
static bool tcache_bin(struct as_heaps *h, const struct as_libc *libc, struct as_page_cache *cache, int bin,
                       uint64_t entry, uint64_t expected, struct as_tcache_contents *sum, struct as_error *err)
{
    uint64_t remembered = 0;
    for (uint64_t n = 0; n < expected; n++) {
        struct list_chunk c;
        bool cycle = entry != 0 && as_is_cycle(&remembered, entry, n + 1);
        const char *wrong = cycle ? "a tcache list has a cycle" : wrong_entry(h, cache, bin, entry, &c);
        if (wrong) {
            as_fault_note(h, UINT32_MAX, UINT32_MAX, entry, wrong);
            return true;
        }
        if (!add_cached(h, entry - AS_HEADER, AS_CHUNK_TCACHE, err))
            return false;
        sum->keys_differ |= sum->count > 0 && c.key != sum->key;
        sum->key = c.key;
        sum->count++;
        sum->bytes += as_chunksize(c.size);
        entry = unmangle_link(h, libc, entry, c.link);
    }
    if (entry != 0)
        as_fault_note(h, UINT32_MAX, UINT32_MAX, entry, "a tcache list is longer than its count");
    return true;
}

bool as_tcache_copy(struct as_target *t, const struct as_heap_layout *layout, uint64_t address,
                    uint8_t bytes[AS_TCACHE_BYTES])
{
    return layout->tcache_size <= AS_TCACHE_BYTES && as_target_read(t, address, bytes, (size_t)layout->tcache_size);
}

bool as_tcache_read(struct as_heaps *h, uint32_t libc_index, struct as_page_cache *cache, uint64_t address,
                    struct as_tcache_contents *sum, struct as_error *err)
{
    const struct as_libc *libc = &h->malloc->libcs.items[libc_index];
    const struct as_heap_layout *layout = &libc->layout.heap;
    uint8_t bytes[AS_TCACHE_BYTES];
    if (!as_tcache_copy(h->target, layout, address, bytes)) {
        as_fault_note(h, UINT32_MAX, UINT32_MAX, address, "a thread's tcache cannot be read");
        return true;
    }
    if (!add_cached(h, address - AS_HEADER, AS_CHUNK_METADATA, err))
        return false;
    for (int bin = 0; bin < layout->tcache_bins; bin++)
        if (!tcache_bin(h, libc, cache, bin, bin_entry(layout, bytes, bin),
                        bin_count(layout, h->pars.items[libc_index].tcache_count, bytes, bin), sum, err))
            return false;
    return true;
}
