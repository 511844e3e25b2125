// SPDX-License-Identifier: MIT
// What objects point to as their own: a block that is no object itself, or a chunk, is counted with the first object that owns it.
#include "runtimes/cpython_count.h"

// Takes the block of a region that holds `address`, if nobody has; returns its size, or 0.
static uint64_t claim_block(struct as_py_count *c, size_t region, uint64_t address)
{
    const struct as_region_record *r = &c->regions[region];
    uint64_t first = as_py_first_pool(c, r);
    if (address < first || (address - first) / c->pool_size >= AS_PY_POOLS)
        return 0;
    uint64_t pool = (address - first) / c->pool_size;
    uint64_t offset = (address - first) % c->pool_size;
    uint8_t class = c->size_classes.items[region * AS_PY_POOLS + pool];
    if (class == 0 || offset < sizeof(struct as_py_pool))
        return 0;
    uint64_t size = (uint64_t) class * AS_PY_ALIGNMENT;
    uint64_t block = (offset - sizeof(struct as_py_pool)) / size * size + sizeof(struct as_py_pool);
    uint64_t granule = (first - r->address + pool * c->pool_size + block) / AS_PY_ALIGNMENT;
    uint64_t *word = &c->unclaimed.items[region * c->bitmap_words + granule / AS_PY_WORD_BITS];
    if (!(*word >> granule % AS_PY_WORD_BITS & 1))
        return 0;
    *word &= ~(UINT64_C(1) << granule % AS_PY_WORD_BITS);
    c->other_blocks--;
    c->other_bytes -= size;
    return size;
}

// The region that holds `address`, beginning with a guess; region_count: none does.
static size_t region_at(const struct as_py_count *c, uint64_t address, size_t guess)
{
    if (guess < c->region_count && address - c->regions[guess].address < c->regions[guess].size)
        return guess;
    size_t behind = AS_PARTITION_POINT(0, c->region_count, i, c->regions[i].address <= address);
    bool holds = behind > 0 && address - c->regions[behind - 1].address < c->regions[behind - 1].size;
    return holds ? behind - 1 : c->region_count;
}

// Takes the chunk whose application's part begins at `address`, if nobody has; returns its size, or 0.
static uint64_t claim_chunk(struct as_py_count *c, uint64_t address)
{
    size_t low = AS_PARTITION_POINT(0, c->chunks.count, i, c->chunks.items[i].address + AS_PY_CHUNK_HEADER < address);
    // With PYTHONMALLOC=debug there are two prefixes: of Python's own allocator, and of its use of malloc.
    if (low > 0 && (low == c->chunks.count || c->chunks.items[low].address + AS_PY_CHUNK_HEADER != address) &&
        c->chunks.items[low - 1].address + AS_PY_CHUNK_HEADER + 2 * AS_PY_DEBUG_PREFIX == address)
        low--;
    else if (low == c->chunks.count || c->chunks.items[low].address + AS_PY_CHUNK_HEADER != address)
        return 0;
    uint64_t size = c->chunks.items[low].size;
    c->chunks.items[low].size = 0;
    return size;
}

// Counts what some objects own. `region`: a guess, which is set to where the last was. `numbers`: of their types; NULL: the same.
static void count_items(struct as_py_count *c, const uint64_t *items, size_t count, const uint32_t *numbers,
                        size_t *region)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t address = items[i] >> AS_PY_TYPE_BITS << AS_PY_GRANULE_BITS, type = items[i] & (AS_PY_MOST_TYPES - 1);
        struct as_type_record *owner = &c->types.entries.items[numbers ? numbers[type] : type].counts;
        size_t found = region_at(c, address, *region);
        if (found == c->region_count) {
            owner->owned_malloc_bytes += claim_chunk(c, address);
            continue;
        }
        *region = found;
        owner->owned_bytes += claim_block(c, found, address);
    }
}

void as_py_count_owned(struct as_py_count *c)
{
    size_t region = 0;
    AS_FOR_EACH(const struct as_py_batch, batch, &c->batches) {
        const struct as_py_owned *list = &c->lists.items[batch->list];
        if (batch->first < batch->end)
            count_items(c, list->items.items + batch->first, batch->end - batch->first, list->numbers.items, &region);
    }
    count_items(c, c->owned.items, c->owned.count, NULL, &region);
}
