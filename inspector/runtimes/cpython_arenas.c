// SPDX-License-Identifier: MIT
// One arena, proven: every pool of it that was ever used has a header that fits.
#include "runtimes/cpython_arenas.h"

#include "base/align.h"
#include "runtimes/pages.h"
#include "runtimes/regions.h"

// Only the next such element is known of an element without an arena: the rest was never written.
bool as_py_is_arena(const struct as_py_search *s, uint64_t table, const struct as_py_arena *o)
{
    uint64_t size = s->layout->arena;
    if (o->address == 0)
        return o->next == 0 || (o->next >= table && (o->next - table) % sizeof *o == 0 &&
                                (o->next - table) / sizeof *o < (uint64_t)1 << AS_PY_INDEX_BITS);
    uint64_t first = as_align_up(o->address, s->layout->pool);
    return o->address % s->target->page_size == 0 && o->address < UINT64_MAX - size &&
           o->free_pools <= o->total_pools && o->total_pools == AS_PY_POOLS - (first != o->address) &&
           o->pool_address >= first && o->pool_address <= first + o->total_pools * (uint64_t)s->layout->pool &&
           o->pool_address % s->layout->pool == 0;
}

// Adds one pool to its arena and its size class. False: it is no pool of this arena.
static bool add_pool(struct as_py_search *s, const struct as_py_pool *h, uint64_t address, uint32_t index,
                     struct as_region_record *region, struct as_size_class_record *classes, uint32_t *empty)
{
    uint32_t pool = s->layout->pool;
    uint32_t size = (h->size_class + 1) * AS_PY_ALIGNMENT;
    if (h->size_class >= AS_PY_CLASSES || h->arena_index != index || h->max_next_offset != pool - size)
        return false;
    if (h->next_offset < sizeof *h || h->next_offset > pool)
        return false;
    uint32_t room = (pool - (uint32_t)sizeof *h) / size;
    uint32_t divided = h->next_offset - (uint32_t)sizeof *h;
    bool inside = h->free_block == 0 || (h->free_block > address && h->free_block < address + pool);
    if (divided % size != 0 || h->count > divided / size || !inside)
        return false;
    s->pools++;
    if (h->count == 0) {
        (*empty)++;
        return true;
    }
    struct as_size_class_record *class = &classes[h->size_class];
    class->pools++;
    class->in_use += h->count;
    class->free += room - h->count;
    region->in_use += (uint64_t)h->count * size;
    region->free += (uint64_t)(room - h->count) * size;
    return true;
}

// How much of pools without a block in use is resident.
static void add_empty(struct as_py_search *s, struct as_region_record *region, uint64_t address, uint64_t pools)
{
    uint64_t bytes = pools * s->layout->pool;
    uint64_t resident = as_target_resident_bytes(s->target, address, address + bytes);
    region->empty += bytes;
    region->empty_resident =
        region->empty_resident == AS_UNKNOWN || resident == AS_UNKNOWN ? AS_UNKNOWN : region->empty_resident + resident;
}

// Adds the pages of an arena, of whose pools `used` have been accepted.
static bool add_pages(struct as_py_search *s, const struct as_region_record *region, const struct as_py_pool *headers,
                      uint32_t used, uint32_t total)
{
    struct as_runtime_piece piece;
    uint32_t pool = s->layout->pool;
    uint64_t at = as_align_up(region->address, pool);
    if (!as_runtime_pages_add(&s->store->runtime_pages, AS_RUNTIME_CPYTHON, region->address, region->size,
                              s->target->page_size, &piece, s->err))
        return false;
    for (uint32_t i = 0; i < used; i++, at += pool) {
        const struct as_py_pool *h = &headers[i];
        uint32_t size = (h->size_class + 1) * AS_PY_ALIGNMENT;
        uint64_t first = at + sizeof *h, room = (pool - sizeof *h) / size * size;
        if (h->count == 0)
            as_runtime_piece_count(&piece, at, at + pool, 0, 0);
        else
            as_runtime_piece_count(&piece, first, first + room, (uint64_t)h->count * size, size);
    }
    as_runtime_piece_count(&piece, at, at + (uint64_t)(total - used) * pool, 0, 0);
    return true;
}

// How many pools of an arena have been used.
static uint32_t used_pools(const struct as_py_search *s, const struct as_py_arena *o)
{
    return (uint32_t)((o->pool_address - as_align_up(o->address, s->layout->pool)) / s->layout->pool);
}

// Adds an arena, the headers of whose used pools have been read. As as_py_add_arenas.
static bool add_arena(struct as_py_search *s, const struct as_py_element *e, const uint64_t *addresses,
                      const struct as_py_pool *headers, const bool *read, struct as_size_class_record *classes,
                      bool *ok)
{
    const struct as_py_arena *o = &e->arena;
    uint32_t used = used_pools(s, o), empty = 0;
    struct as_region_record region = {
        .address = o->address,
        .size = s->layout->arena,
        .resident = AS_UNKNOWN,
        .runtime = s->runtime,
        .heap = UINT32_MAX,
    };
    for (uint32_t i = 0; i < used; i++) {
        uint32_t before = empty;
        if (!read[i] || !add_pool(s, &headers[i], addresses[i], e->index, &region, classes, &empty))
            return false;
        if (empty != before)
            add_empty(s, &region, addresses[i], 1);
    }
    if (used < o->total_pools)
        add_empty(s, &region, o->pool_address, o->total_pools - used);
    // A thread may stand between the two changes that a pool's end or beginning takes.
    uint32_t counted = empty + o->total_pools - used;
    s->unsettled += counted != o->free_pools;
    if (counted > o->free_pools + 1 || o->free_pools > counted + 1)
        return false;
    *ok = as_vec_push(&s->store->regions, s->err, region) &&
          (!s->pages || add_pages(s, &region, headers, used, o->total_pools));
    return *ok;
}

// Reads the headers of all used pools of some arenas. As as_py_add_arenas.
static bool read_headers(struct as_py_search *s, const struct as_py_element *elements, size_t count, bool *ok)
{
    size_t most = AS_PY_TOGETHER * AS_PY_POOLS;
    s->addresses.count = s->headers.count = s->read.count = 0;
    *ok = as_vec_reserve(&s->addresses, most, s->err) && as_vec_reserve(&s->headers, most, s->err) &&
          as_vec_reserve(&s->read, most, s->err);
    for (size_t i = 0; i < count && *ok; i++) {
        const struct as_py_arena *o = &elements[i].arena;
        uint64_t first = as_align_up(o->address, s->layout->pool);
        uint32_t used = used_pools(s, o);
        if (!as_is_runtime_range(s->target, o->address, s->layout->arena, &s->reads_left) ||
            (s->reads_left -= used) < 0)
            return false;
        for (uint32_t k = 0; k < used; k++)
            s->addresses.items[s->addresses.count++] = first + k * (uint64_t)s->layout->pool;
    }
    if (*ok)
        as_target_gather_wide(s->target, s->addresses.items, s->addresses.count, sizeof *s->headers.items,
                              s->headers.items, sizeof *s->headers.items, s->read.items);
    return *ok;
}

bool as_py_add_arenas(struct as_py_search *s, const struct as_py_element *elements, size_t count,
                      struct as_size_class_record *classes, bool *ok)
{
    size_t at = 0;
    if (!read_headers(s, elements, count, ok))
        return false;
    for (size_t i = 0; i < count; at += used_pools(s, &elements[i].arena), i++)
        if (!add_arena(s, &elements[i], s->addresses.items + at, s->headers.items + at, s->read.items + at, classes,
                       ok))
            return false;
    return true;
}
