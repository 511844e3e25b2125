// SPDX-License-Identifier: MIT
// The objects of a CPython by type, from outside: each block in use of each pool, and each large chunk in use of malloc, is looked at
// once. A block is an object if it has, behind the head that the type asks for, a reference count and the address of a proven
// type. What objects point to as their own (a list's items, a dict's table) is counted with them in a second pass, where the
// block is no object itself. So the sum of objects, of what they own and of other blocks is the sum of blocks in use.
#include "base/align.h"
#include "base/sort.h"
#include "runtimes/cpython.h"
#include "runtimes/cpython_layout.h"
#include "runtimes/cpython_types.h"

#include <string.h>

enum {
    LARGEST_POOL = 16 << 10,
    LEAST_BLOCK = AS_PY_ALIGNMENT,
    MOST_BLOCKS = LARGEST_POOL / LEAST_BLOCK,
    WORD = sizeof(uint64_t),
    WORD_BITS = 64,
    DEBUG_PREFIX = 2 * WORD,
    HEADS = 3,         // 0, PyGC_Head, and PyGC_Head with two words before it
    LOOK = 128,        // bytes of a block that are looked at: the largest head, and a set up to its table
    CHUNK_HEADER = 16, // of a chunk of malloc
    CHUNKS = 256,      // chunks that are read in one go
    TYPE_BITS = 17,    // of an owned address beside its owner: AS_PY_MOST_TYPES
    GRANULE_BITS = 4,  // AS_PY_ALIGNMENT
    ADDRESS_BITS = 47, // of the addresses that are followed: the kernel gives no others unasked
};
_Static_assert(AS_PY_MOST_TYPES == 1 << TYPE_BITS, "an index fits");
static const uint64_t DEBUG_BYTES = UINT64_C(0xfdfdfdfdfdfdfd); // PYMEM_FORBIDDENBYTE, 3.8 on

// A large chunk in use; its size is 0 from when it is known to whom it belongs.
struct large_chunk {
    uint64_t address, size;
};

struct object_count {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    struct as_py_types types;
    const struct as_runtime_record *runtime;
    const struct as_region_record *regions; // by address
    size_t region_count;
    uint64_t pool_size;
    uint64_t lowest;            // address of the first mapping
    size_t bitmap_words;        // for a region
    AS_VEC(uint64_t) unclaimed; // a bit for each 16 bytes of each region: a block in use that is no object begins here
    AS_VEC(uint8_t) size_classes; // of each pool of each region, plus one; 0: no block in use
    AS_VEC(uint64_t) owned;       // the 16 bytes that an object points to as its own, and its type
    AS_VEC(struct large_chunk) chunks;
    uint64_t other_blocks, other_bytes;
    uint64_t gc_objects;
    bool changed; // pymalloc was at work meanwhile, or the target is forged
};

static uint64_t first_pool(const struct object_count *c, const struct as_region_record *region)
{
    return as_align_up(region->address, c->pool_size);
}

static uint32_t pools_of(const struct object_count *c, const struct as_region_record *region)
{
    return (uint32_t)((region->address + region->size - first_pool(c, region)) / c->pool_size);
}

// The word at `offset` of a block. A core's memory is read where it lies, at any alignment.
static uint64_t word_at(const uint8_t *block, size_t offset)
{
    uint64_t word;
    memcpy(&word, block + offset, sizeof word);
    return word;
}

// Could this word be ob_refcnt? 32 bits of it count; from 3.14 on the uppermost 16 are flags. No address looks so, but that of
// something in the lowest 4 GiB.
static bool is_refcount(uint64_t word)
{
    return (uint32_t)word != 0 && (uint16_t)(word >> 32) == 0;
}

// Is a word that could be a reference count rather the address of an object? Then the block is an array of such.
static bool is_object_address(struct object_count *c, uint64_t word)
{
    uint64_t object[2];
    return word >= c->lowest && word % sizeof word == 0 && as_target_mapping_at(c->target, word) &&
           as_target_read(c->target, word, object, sizeof object) &&
           as_py_type_at(&c->types, object[1]) != AS_PY_NO_TYPE;
}

// The type of the object that a block has behind the head of `*head` bytes, and that head; AS_PY_NO_TYPE: there is none.
static uint32_t object_in(struct object_count *c, const uint8_t *block, uint64_t size, uint32_t *head)
{
    for (*head = 0; *head < HEADS * AS_PY_GC_HEAD && *head + 2 * WORD <= size; *head += AS_PY_GC_HEAD) {
        uint64_t refcount = word_at(block, *head), address = word_at(block, *head + WORD);
        if (!is_refcount(refcount) || address >> ADDRESS_BITS != 0)
            continue;
        uint32_t index = as_py_type_at(&c->types, address);
        if (index == AS_PY_NO_TYPE)
            continue;
        const struct as_py_type_entry *type = &c->types.entries.items[index];
        if (type->head == *head && type->least_size <= size - *head && !is_object_address(c, refcount))
            return index;
    }
    return AS_PY_NO_TYPE;
}

// Takes note that an object of a type says `address` to be its own memory.
static bool add_owned(struct object_count *c, uint64_t address, uint32_t type)
{
    if (address == 0 || address >> ADDRESS_BITS != 0)
        return true;
    uint64_t *owned = as_vec_add(&c->owned, c->err);
    if (owned)
        *owned = address >> GRANULE_BITS << TYPE_BITS | type;
    return owned;
}

// What an object owns, by the pointers in the part of its block that has been read.
static bool follow(struct object_count *c, const uint8_t *block, uint64_t size, uint32_t head, uint32_t index)
{
    static const uint32_t place[] = {
        [AS_PY_OWNS_ITEMS] = AS_PY_LIST_ITEMS,
        [AS_PY_OWNS_KEYS] = AS_PY_DICT_KEYS,
        [AS_PY_OWNS_TABLE] = AS_PY_SET_TABLE,
        [AS_PY_OWNS_BYTES] = AS_PY_BYTEARRAY,
    };
    // Up to 3.12 one of the words before the object leads to the values of its attributes; 3.12 has its lowest bit set.
    for (uint32_t at = 0; at + AS_PY_GC_HEAD < head; at += WORD) {
        uint64_t word = word_at(block, at);
        if (!add_owned(c, word & 1 ? word + 1 : word, index))
            return false;
    }
    uint32_t owns = c->types.entries.items[index].owns;
    if (owns == AS_PY_OWNS_NOTHING || head + place[owns] + 2 * WORD > size)
        return true;
    uint64_t values = owns == AS_PY_OWNS_KEYS ? word_at(block, head + AS_PY_DICT_VALUES) : 0;
    return add_owned(c, values ? values : word_at(block, head + place[owns]), index);
}

// Counts a block or chunk of `size` bytes, of which up to LOOK can be read. *is_object: whether it is one. False: no memory.
static bool count_block(struct object_count *c, const uint8_t *block, uint64_t size, bool mallocs, bool *is_object)
{
    // With PYTHONMALLOC=debug the block's size, a letter and these bytes stand first; in chunks of malloc twice.
    uint32_t prefix = 0;
    while (prefix < 2 * DEBUG_PREFIX && word_at(block, prefix + WORD) >> 8 == DEBUG_BYTES)
        prefix += DEBUG_PREFIX;
    uint32_t head;
    uint32_t index = object_in(c, block + prefix, size - prefix, &head);
    *is_object = index != AS_PY_NO_TYPE;
    if (!*is_object)
        return !c->types.failed || as_fail(c->err, AS_NO_MEMORY, "no memory for the table of types");
    struct as_type_record *counts = &c->types.entries.items[index].counts;
    counts->count++;
    *(mallocs ? &counts->malloc_bytes : &counts->bytes) += size;
    if (head > 0) {
        c->gc_objects++;
        counts->tracked += word_at(block, prefix + head - AS_PY_GC_HEAD) != 0;
    }
    return follow(c, block + prefix, size - prefix, head, index);
}

// Marks the free blocks of a pool; how many those are. The list of them may be damaged, and end nowhere.
static uint32_t mark_free(const struct object_count *c, const uint8_t *pool, uint64_t address, uint32_t size,
                          uint64_t *marks)
{
    const struct as_py_pool *header = (const void *)pool;
    uint32_t count = 0;
    for (uint64_t block = header->free_block; block != 0;) {
        uint64_t offset = block - address;
        if (offset < sizeof *header || offset > c->pool_size - size || (offset - sizeof *header) % size != 0)
            break;
        uint64_t place = (offset - sizeof *header) / size;
        if (marks[place / WORD_BITS] >> place % WORD_BITS & 1)
            break;
        marks[place / WORD_BITS] |= UINT64_C(1) << place % WORD_BITS;
        count++;
        memcpy(&block, pool + offset, sizeof block);
    }
    return count;
}

static bool count_pool(struct object_count *c, const uint8_t *pool, uint64_t address, const struct as_region_record *r,
                       uint64_t *unclaimed, uint8_t *class)
{
    const struct as_py_pool *header = (const void *)pool;
    uint64_t marks[MOST_BLOCKS / WORD_BITS] = {0};
    uint32_t size = (header->size_class + 1) * AS_PY_ALIGNMENT;
    if (header->count == 0)
        return true;
    if (header->size_class >= AS_PY_CLASSES || header->next_offset > c->pool_size) { // changed since it was accepted
        c->changed = true;
        return true;
    }
    uint32_t blocks = (header->next_offset - (uint32_t)sizeof *header) / size;
    uint32_t free = mark_free(c, pool, address, size, marks);
    c->changed |= free + header->count != blocks;
    *class = (uint8_t)(header->size_class + 1);
    for (uint32_t i = 0; i < blocks; i++) {
        const uint8_t *block = pool + sizeof *header + (size_t)i * size;
        bool is_object;
        if (marks[i / WORD_BITS] >> i % WORD_BITS & 1)
            continue;
        if (!count_block(c, block, size, false, &is_object))
            return false;
        if (!is_object) {
            uint64_t granule = (address - r->address + (uint64_t)(block - pool)) / AS_PY_ALIGNMENT;
            unclaimed[granule / WORD_BITS] |= UINT64_C(1) << granule % WORD_BITS;
            c->other_blocks++;
            c->other_bytes += size;
        }
    }
    return true;
}

// Where the regions end that follow each other without a gap.
static uint64_t end_of_run(const struct object_count *c, size_t first)
{
    uint64_t end = c->regions[first].address + c->regions[first].size;
    for (size_t i = first + 1; i < c->region_count && c->regions[i].address == end; i++)
        end += c->regions[i].size;
    return end;
}

// Counts the pools of a region whose bytes are at `bytes`. Of the last block LOOK bytes must be there, and may not be.
static bool count_region(struct object_count *c, size_t index, const uint8_t *bytes)
{
    const struct as_region_record *region = &c->regions[index];
    uint64_t skipped = first_pool(c, region) - region->address;
    uint32_t pools = pools_of(c, region);
    uint8_t last[LARGEST_POOL + LOOK];
    bool ok = true;
    for (uint32_t k = 0; k < pools && ok; k++) {
        const uint8_t *pool = bytes + skipped + k * c->pool_size;
        if (k + 1 == pools) {
            memcpy(last, pool, c->pool_size);
            pool = last;
        }
        ok = count_pool(c, pool, first_pool(c, region) + k * c->pool_size, region,
                        &c->unclaimed.items[index * c->bitmap_words], &c->size_classes.items[index * AS_PY_POOLS + k]);
    }
    return ok;
}

static bool count_regions(struct object_count *c)
{
    struct as_window window = {0};
    bool ok = as_window_open(&window, c->target, c->err);
    for (size_t i = 0; i < c->region_count && ok; i++) {
        const struct as_region_record *region = &c->regions[i];
        if (i == 0 || window.limit <= region->address)
            window.limit = end_of_run(c, i);
        const uint8_t *bytes = as_window_at(&window, region->address, region->size);
        c->changed |= !bytes;
        ok = !bytes || count_region(c, i, bytes);
    }
    as_window_close(&window);
    return ok;
}

// Chunks too large for pymalloc, where they are Python's objects. A chunk has its size in the second word.
static bool count_chunks(struct object_count *c, const uint64_t *addresses, size_t count)
{
    enum { FLAGS = 7 };
    struct {
        uint64_t previous, size;
        uint8_t bytes[LOOK];
    } read[CHUNKS];
    bool readable[CHUNKS], is_object;
    if (!as_vec_reserve(&c->chunks, count, c->err))
        return false;
    for (size_t i = 0; i < count; i++) {
        size_t k = i % CHUNKS;
        if (k == 0)
            as_target_gather(c->target, addresses + i, count - i < CHUNKS ? count - i : CHUNKS, sizeof *read, read,
                             sizeof *read, readable);
        uint64_t size = read[k].size & ~(uint64_t)FLAGS;
        if (!readable[k] || size <= AS_PY_SMALL || size >> ADDRESS_BITS != 0)
            continue;
        if (!count_block(c, read[k].bytes, size - CHUNK_HEADER, true, &is_object))
            return false;
        c->chunks.items[c->chunks.count++] = (struct large_chunk){addresses[i], is_object ? 0 : size};
    }
    return true;
}

// Takes the block of a region that holds `address`, if nobody has; returns its size, or 0.
static uint64_t claim_block(struct object_count *c, size_t region, uint64_t address)
{
    const struct as_region_record *r = &c->regions[region];
    uint64_t first = first_pool(c, r);
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
    uint64_t *word = &c->unclaimed.items[region * c->bitmap_words + granule / WORD_BITS];
    if (!(*word >> granule % WORD_BITS & 1))
        return 0;
    *word &= ~(UINT64_C(1) << granule % WORD_BITS);
    c->other_blocks--;
    c->other_bytes -= size;
    return size;
}

// The region that holds `address`, beginning with a guess; region_count: none does.
static size_t region_at(const struct object_count *c, uint64_t address, size_t guess)
{
    size_t low = 0, high = c->region_count;
    if (guess < high && address - c->regions[guess].address < c->regions[guess].size)
        return guess;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (address < c->regions[middle].address)
            high = middle;
        else if (address - c->regions[middle].address < c->regions[middle].size)
            return middle;
        else
            low = middle + 1;
    }
    return c->region_count;
}

// Takes the chunk whose application's part begins at `address`, if nobody has; returns its size, or 0.
static uint64_t claim_chunk(struct object_count *c, uint64_t address)
{
    size_t low = 0, high = c->chunks.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->chunks.items[middle].address + CHUNK_HEADER < address)
            low = middle + 1;
        else
            high = middle;
    }
    // With PYTHONMALLOC=debug there are two prefixes: of Python's own allocator, and of its use of malloc.
    if (low > 0 && (low == c->chunks.count || c->chunks.items[low].address + CHUNK_HEADER != address) &&
        c->chunks.items[low - 1].address + CHUNK_HEADER + 2 * DEBUG_PREFIX == address)
        low--;
    else if (low == c->chunks.count || c->chunks.items[low].address + CHUNK_HEADER != address)
        return 0;
    uint64_t size = c->chunks.items[low].size;
    c->chunks.items[low].size = 0;
    return size;
}

// Gives the blocks and chunks that objects own to their owners.
static void claim(struct object_count *c)
{
    size_t region = 0;
    for (size_t i = 0; i < c->owned.count; i++) {
        uint64_t address = c->owned.items[i] >> TYPE_BITS << GRANULE_BITS;
        struct as_type_record *owner = &c->types.entries.items[c->owned.items[i] & (AS_PY_MOST_TYPES - 1)].counts;
        size_t found = region_at(c, address, region);
        if (found == c->region_count) {
            owner->owned_malloc_bytes += claim_chunk(c, address);
            continue;
        }
        region = found;
        owner->owned_bytes += claim_block(c, region, address);
    }
}

// Adds the types that have objects, those with the most bytes first.
static bool add_types(struct object_count *c, uint32_t runtime)
{
    AS_VEC(uint64_t) order = {0}; // all bits of the bytes turned over, and the index
    bool ok = as_vec_reserve(&order, c->types.entries.count, c->err);
    for (size_t i = 0; i < c->types.entries.count && ok; i++) {
        const struct as_type_record *t = &c->types.entries.items[i].counts;
        uint64_t bytes = t->bytes + t->malloc_bytes + t->owned_bytes + t->owned_malloc_bytes;
        if (t->count > 0)
            order.items[order.count++] = ~bytes << TYPE_BITS | i;
    }
    ok = ok && as_sort_u64(order.items, order.count, c->err) && as_vec_reserve(&c->store->types, order.count, c->err);
    for (size_t i = 0; i < order.count && ok; i++) {
        const struct as_py_type_entry *entry = &c->types.entries.items[order.items[i] & (AS_PY_MOST_TYPES - 1)];
        struct as_type_record *record = &c->store->types.items[c->store->types.count++];
        *record = entry->counts;
        record->runtime = runtime;
        record->name = entry->name;
        record->address = entry->address;
    }
    as_vec_free(&order);
    return ok;
}

static bool count_all(struct object_count *c, const uint64_t *chunks, size_t chunk_count)
{
    c->bitmap_words = as_align_up(c->runtime->region_size / AS_PY_ALIGNMENT, WORD_BITS) / WORD_BITS;
    size_t words = c->region_count * c->bitmap_words;
    size_t pools = c->region_count * AS_PY_POOLS;
    if (!as_vec_reserve(&c->unclaimed, words, c->err) || !as_vec_reserve(&c->size_classes, pools, c->err))
        return false;
    c->unclaimed.count = words;
    c->size_classes.count = pools;
    if (!count_regions(c) || !count_chunks(c, chunks, chunk_count))
        return false;
    claim(c);
    return true;
}

static bool count_runtime(struct as_target *t, struct as_store *store, uint32_t runtime, const uint64_t *chunks,
                          size_t chunk_count, struct as_error *err)
{
    struct as_runtime_record *record = &store->runtimes.items[runtime];
    struct object_count c = {
        .target = t,
        .store = store,
        .err = err,
        .types = {.target = t, .store = store, .err = err},
        .runtime = record,
        .pool_size = record->pool_size,
        .lowest = t->mappings.items[0].start,
    };
    while (store->regions.items[c.region_count].runtime != runtime) // its regions follow each other
        c.region_count++;
    c.regions = store->regions.items + c.region_count;
    size_t end = c.region_count;
    while (end < store->regions.count && store->regions.items[end].runtime == runtime)
        end++;
    c.region_count = end - c.region_count;
    bool ok = count_all(&c, chunks, chunk_count);
    // Every Python has objects that the collector knows. Where none was seen, this release has other structures.
    bool known = ok && !c.types.overflow && c.gc_objects > 0;
    if (known) {
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
    as_py_types_free(&c.types);
    as_vec_free(&c.unclaimed);
    as_vec_free(&c.size_classes);
    as_vec_free(&c.owned);
    as_vec_free(&c.chunks);
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
