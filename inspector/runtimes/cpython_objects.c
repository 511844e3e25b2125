// SPDX-License-Identifier: MIT
// The objects of a CPython by type, from outside: each block in use of each pool, and each large chunk in use of malloc, is inspected
// once. A block is an object if it has, behind the head that the type asks for, a reference count and the address of a proven
// type. What objects point to as their own (a list's items, a dict's table) is counted with them in a second pass, where the
// block is no object itself. So the sum of objects, of what they own and of other blocks is the sum of blocks in use.
#include "base/sort.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_count.h"

#include <string.h>

enum {
    LARGEST_POOL = 16 << 10,
    MOST_BLOCKS = LARGEST_POOL / AS_PY_ALIGNMENT,
    CHUNKS = 256, // chunks that are read in one go
};

// Marks the free blocks of a pool, from `block` on; how many those are. The list of them may be damaged, and end nowhere.
static uint32_t mark_free(const struct as_py_count *c, const uint8_t *pool, uint64_t address, uint64_t block,
                          uint32_t size, uint64_t *marks)
{
    uint32_t count = 0;
    while (block != 0) {
        uint64_t offset = block - address;
        if (offset < sizeof(struct as_py_pool) || offset > c->pool_size - size ||
            (offset - sizeof(struct as_py_pool)) % size != 0)
            break;
        uint64_t place = (offset - sizeof(struct as_py_pool)) / size;
        if (marks[place / AS_PY_WORD_BITS] >> place % AS_PY_WORD_BITS & 1)
            break;
        marks[place / AS_PY_WORD_BITS] |= UINT64_C(1) << place % AS_PY_WORD_BITS;
        count++;
        memcpy(&block, pool + offset, sizeof block);
    }
    return count;
}

static bool visit_block(const struct as_py_count *c, uint64_t address, uint64_t size, uint64_t region_end,
                        const struct as_py_found *found)
{
    return !c->visitor || c->visitor->block(c->visitor->context, &(struct as_visited_block){.address = address,
                                                                                            .size = size,
                                                                                            .region_end = region_end,
                                                                                            .type = found->type,
                                                                                            .head = found->head,
                                                                                            .used = found->used});
}

static bool count_pool(struct as_py_count *c, const uint8_t *pool, uint64_t address, const struct as_region_record *r,
                       uint64_t *unclaimed, uint8_t *class)
{
    struct as_py_pool header; // a core's memory is read where it lies, at any alignment
    memcpy(&header, pool, sizeof header);
    uint64_t marks[MOST_BLOCKS / AS_PY_WORD_BITS] = {0};
    uint32_t size = (header.size_class + 1) * AS_PY_ALIGNMENT;
    if (header.count == 0)
        return true;
    if (header.size_class >= AS_PY_CLASSES || header.next_offset < sizeof header ||
        header.next_offset > c->pool_size) { // changed since it was accepted
        c->changed = true;
        return true;
    }
    uint32_t blocks = (header.next_offset - (uint32_t)sizeof header) / size;
    uint32_t free = mark_free(c, pool, address, header.free_block, size, marks);
    c->changed |= free + header.count != blocks;
    *class = (uint8_t)(header.size_class + 1);
    for (uint32_t i = 0; i < blocks; i++) {
        const uint8_t *block = pool + sizeof header + (size_t)i * size;
        struct as_py_found found;
        if (marks[i / AS_PY_WORD_BITS] >> i % AS_PY_WORD_BITS & 1)
            continue;
        if (!as_py_count_block(c, block, address + (uint64_t)(block - pool), size, false, &found) ||
            !visit_block(c, address + (uint64_t)(block - pool), size, r->address + r->size, &found))
            return false;
        if (found.type == AS_PY_NO_TYPE) {
            uint64_t granule = (address - r->address + (uint64_t)(block - pool)) / AS_PY_ALIGNMENT;
            unclaimed[granule / AS_PY_WORD_BITS] |= UINT64_C(1) << granule % AS_PY_WORD_BITS;
            c->other_blocks++;
            c->other_bytes += size;
        }
    }
    return true;
}

// Where the regions end that follow each other without a gap.
static uint64_t end_of_run(const struct as_py_count *c, size_t first)
{
    uint64_t end = c->regions[first].address + c->regions[first].size;
    for (size_t i = first + 1; i < c->region_count && c->regions[i].address == end; i++)
        end += c->regions[i].size;
    return end;
}

// Counts the pools of a region whose bytes are at `bytes`. Of the last block AS_PY_READ bytes must be there, and may not be.
static bool count_region(struct as_py_count *c, size_t index, const uint8_t *bytes)
{
    const struct as_region_record *region = &c->regions[index];
    uint64_t skipped = as_py_first_pool(c, region) - region->address;
    uint32_t pools = as_py_pools_of(c, region);
    uint8_t last[LARGEST_POOL + AS_PY_READ];
    bool ok = true;
    for (uint32_t k = 0; k < pools && ok; k++) {
        const uint8_t *pool = bytes + skipped + k * c->pool_size;
        if (k + 1 == pools) {
            memcpy(last, pool, c->pool_size);
            pool = last;
        }
        ok = count_pool(c, pool, as_py_first_pool(c, region) + k * c->pool_size, region,
                        &c->unclaimed.items[index * c->bitmap_words], &c->size_classes.items[index * AS_PY_POOLS + k]);
    }
    return ok;
}

static bool count_regions(struct as_py_count *c, struct as_window *window, size_t first, size_t end)
{
    bool ok = true;
    for (size_t i = first; i < end && ok; i++) {
        const struct as_region_record *region = &c->regions[i];
        if (i == first || window->limit <= region->address)
            window->limit = end_of_run(c, i);
        const uint8_t *bytes = as_window_at(window, region->address, region->size);
        c->changed |= !bytes;
        ok = !bytes || count_region(c, i, bytes);
    }
    return ok;
}

// Chunks too large for pymalloc, where they are Python's objects. A chunk has its size in the second word.
static bool count_chunks(struct as_py_count *c, const uint64_t *addresses, size_t count)
{
    enum { FLAGS = 7 };
    struct {
        uint64_t previous, size;
        uint8_t bytes[AS_PY_READ];
    } read[CHUNKS];
    bool readable[CHUNKS];
    struct as_py_found found;
    if (!as_vec_reserve(&c->chunks, count, c->err))
        return false;
    if (c->least < AS_CPYTHON_LARGE_CHUNK) {
        c->types.chunks = addresses;
        c->types.chunk_count = count;
    }
    for (size_t i = 0; i < count; i++) {
        size_t k = i % CHUNKS;
        if (k == 0)
            as_target_gather(c->target, addresses + i, count - i < CHUNKS ? count - i : CHUNKS, sizeof *read, read,
                             sizeof *read, readable);
        uint64_t size = read[k].size & ~(uint64_t)FLAGS;
        if (!readable[k] || size < c->least || size >> AS_PY_ADDRESS_BITS != 0)
            continue;
        if (!as_py_count_block(c, read[k].bytes, addresses[i] + AS_PY_CHUNK_HEADER, size - AS_PY_CHUNK_HEADER, true,
                               &found) ||
            !visit_block(c, addresses[i] + AS_PY_CHUNK_HEADER, size - AS_PY_CHUNK_HEADER, 0, &found))
            return false;
        c->chunks.items[c->chunks.count++] = (struct as_py_chunk){addresses[i], found.type == AS_PY_NO_TYPE ? size : 0};
    }
    return true;
}

// Adds the types that have objects, those with the most bytes first; of the same bytes by address, for which thread saw a type first
// is chance.
static bool add_types(struct as_py_count *c, uint32_t runtime)
{
    AS_VEC(uint64_t) places = {0}; // address, and index
    AS_VEC(uint64_t) order = {0};  // all bits of the bytes turned over, and the place in `places`
    const struct as_py_type_entry *entries = c->types.entries.items;
    bool ok = as_vec_reserve(&places, c->types.entries.count, c->err) &&
              as_vec_reserve(&order, c->types.entries.count, c->err);
    for (size_t i = 0; i < c->types.entries.count && ok; i++)
        if (entries[i].counts.count > 0)
            places.items[places.count++] = entries[i].address / sizeof(uint64_t) << AS_PY_TYPE_BITS | i;
    ok = ok && as_sort_u64(places.items, places.count, c->err);
    for (size_t i = 0; i < places.count && ok; i++) {
        const struct as_type_record *t = &entries[places.items[i] & (AS_PY_MOST_TYPES - 1)].counts;
        uint64_t bytes = t->bytes + t->malloc_bytes + t->owned_bytes + t->owned_malloc_bytes;
        order.items[order.count++] = ~bytes << AS_PY_TYPE_BITS | i;
    }
    ok = ok && as_sort_u64(order.items, order.count, c->err) && as_vec_reserve(&c->store->types, order.count, c->err);
    for (size_t i = 0; i < order.count && ok; i++) {
        uint64_t place = places.items[order.items[i] & (AS_PY_MOST_TYPES - 1)];
        const struct as_py_type_entry *entry = &entries[place & (AS_PY_MOST_TYPES - 1)];
        struct as_type_record *record = &c->store->types.items[c->store->types.count++];
        *record = entry->counts;
        record->runtime = runtime;
        record->name = as_strings_add(&c->store->strings, as_strings_at(&c->types.names, entry->name), SIZE_MAX);
        record->address = entry->address;
    }
    as_vec_free(&places);
    as_vec_free(&order);
    return ok;
}

// Goes through all blocks, and then the chunks.
static bool match_all(struct as_py_count *c, const uint64_t *chunks, size_t chunk_count)
{
    if (c->region_count > 0)
        c->bitmap_words = as_align_up(c->runtime->region_size / AS_PY_ALIGNMENT, AS_PY_WORD_BITS) / AS_PY_WORD_BITS;
    size_t words = c->region_count * c->bitmap_words;
    size_t pools = c->region_count * AS_PY_POOLS;
    if (!as_vec_reserve(&c->unclaimed, words, c->err) || !as_vec_reserve(&c->size_classes, pools, c->err))
        return false;
    c->unclaimed.count = words;
    c->size_classes.count = pools;
    return as_py_count_all(c, count_regions) && count_chunks(c, chunks, chunk_count);
}

// A count of a runtime's objects, still of none.
static struct as_py_count begin_count(struct as_target *t, const struct as_store *store, uint32_t runtime)
{
    const struct as_runtime_record *record = &store->runtimes.items[runtime];
    bool arenas = record->state == AS_REGIONS_FOUND;
    struct as_py_count c = {
        .target = t,
        .types = {.target = t},
        .runtime = record,
        .pool_size = record->pool_size,
        .least = as_cpython_chunks_from(record),
        .lowest = t->mappings.items[0].start,
    };
    size_t first = 0;
    if (!arenas)
        return c;
    while (store->regions.items[first].runtime != runtime) // its regions follow each other
        first++;
    c.regions = store->regions.items + first;
    while (first + c.region_count < store->regions.count && c.regions[c.region_count].runtime == runtime)
        c.region_count++;
    return c;
}

static void end(struct as_py_count *c)
{
    as_py_types_free(&c->types);
    AS_FREE_VECS(c, unclaimed, size_classes, owned);
    for (size_t i = 0; i < c->lists.count; i++) {
        AS_FREE_VECS(&c->lists.items[i], items, numbers);
    }
    AS_FREE_VECS(c, lists, batches, chunks);
}

// Every Python has objects that the collector knows. Where none was seen, this release has other structures.
static bool is_known(const struct as_py_count *c)
{
    return !c->types.overflow && c->gc_objects > 0;
}

static bool count_runtime(struct as_target *t, struct as_store *store, uint32_t runtime, const uint64_t *chunks,
                          size_t chunk_count, struct as_error *err)
{
    struct as_runtime_record *record = &store->runtimes.items[runtime];
    struct as_py_count c = begin_count(t, store, runtime);
    c.store = store;
    c.err = c.types.err = err;
    bool ok = match_all(&c, chunks, chunk_count);
    if (ok && is_known(&c)) {
        as_py_count_owned(&c);
        record->objects = c.changed ? AS_OBJECTS_ESTIMATED : AS_OBJECTS_COUNTED;
        record->other_blocks = c.other_blocks;
        record->other_bytes = c.other_bytes;
        ok = add_types(&c, runtime);
    } else if (ok) {
        record->objects = AS_OBJECTS_UNKNOWN;
        as_store_warn(
            store, AS_WARN_NOTE, UINT32_MAX, UINT32_MAX, AS_UNKNOWN,
            "Python's objects could not be counted by type: this release has other structures than CPython 3.8 to "
            "3.14, or its memory is damaged");
    }
    end(&c);
    return ok;
}

bool as_cpython_objects(struct as_target *t, struct as_store *store, const uint64_t *chunks, size_t chunk_count,
                        struct as_error *err)
{
    for (size_t i = 0; i < store->runtimes.count; i++) {
        struct as_runtime_record *record = &store->runtimes.items[i];
        if (record->kind != AS_RUNTIME_CPYTHON)
            continue;
        record->objects = AS_OBJECTS_UNKNOWN;
        if (record->state == AS_REGIONS_FOUND && !count_runtime(t, store, (uint32_t)i, chunks, chunk_count, err))
            return false;
    }
    return true;
}

// What an object's own memory is, where it is of one kind.
static const char *memory_of(const struct as_py_type_entry *type)
{
    static const char *const names[] = {
        [AS_PY_OWNS_NOTHING] = "attributes", [AS_PY_OWNS_ITEMS] = "items", [AS_PY_OWNS_KEYS] = "table",
        [AS_PY_OWNS_TABLE] = "table",        [AS_PY_OWNS_BYTES] = "bytes", [AS_PY_OWNS_DATA] = "data",
    };
    bool has_attributes = type->head > AS_PY_GC_HEAD && type->owns != AS_PY_OWNS_NOTHING;
    return has_attributes ? "memory" : names[type->owns];
}

static bool visit_types(const struct as_py_count *c)
{
    const struct as_object_visitor *v = c->visitor;
    AS_FOR_EACH(const struct as_py_type_entry, entry, &c->types.entries) {
        if (!v->type(v->context, &(struct as_visited_type){.address = entry->address,
                                                           .of_heap = entry->flags & AS_PY_HEAP_TYPE,
                                                           .name = as_strings_at(&c->types.names, entry->name),
                                                           .memory = memory_of(entry),
                                                           .collected = entry->head > 0,
                                                           .leftovers = entry->refers == AS_PY_REFERS_LOOSELY,
                                                           .weak_reference = entry->refers == AS_PY_REFERS_WEAKLY}))
            return false;
    }
    return true;
}

bool as_cpython_visit(struct as_target *t, const struct as_store *store, uint32_t runtime, const uint64_t *chunks,
                      size_t chunk_count, const struct as_object_visitor *visitor, struct as_visited *visited,
                      struct as_error *err)
{
    struct as_py_count c = begin_count(t, store, runtime);
    c.err = c.types.err = err;
    c.visitor = visitor;
    bool ok = match_all(&c, chunks, chunk_count);
    *visited = (struct as_visited){
        .known = ok && is_known(&c), .changed = c.changed, .collector_off = c.collector == AS_PY_COLLECTOR_OFF};
    ok = ok && (!visited->known || visit_types(&c));
    end(&c);
    return ok;
}
