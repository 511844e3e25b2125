// SPDX-License-Identifier: MIT
// Ruby's objects by their type (T_STRING, ...), and the chunks of malloc that they point to. Each slot of each page is looked at
// once: its flags say the type, and a word of it that is exactly the beginning of a chunk in use leads to memory that the object
// has besides its slot. From small chunks other chunks are followed, as from a Hash's table to its entries; each chunk is
// counted once. No layout of any class is needed, so this holds for all releases.
#include "base/sort.h"
#include "runtimes/regions.h"
#include "runtimes/ruby.h"

#include <string.h>

enum {
    TYPES = 32, // RUBY_T_MASK and one
    T_STRING = 5,
    LARGEST_PAGE = 65536,
    WORD = sizeof(uint64_t),
    FIRST_WORD = 2, // of a slot, behind its flags and its class
    CHUNK_HEADER = 16,
    SIZE_FLAGS = 7,
    SMALL = 512,   // bytes of a chunk in which other chunks' addresses are looked for: a table's head, not a buffer
    STEPS = 3,     // from a slot: to a table, and to what the table has
    BATCH = 256,   // chunks that are read in one go
    TYPE_BITS = 5, // of an address beside the type of its owner
    ADDRESS_BITS = 58,
};

static const char *const names[TYPES] = {
    [1] = "T_OBJECT",  [2] = "T_CLASS",    [3] = "T_MODULE",    [4] = "T_FLOAT",   [5] = "T_STRING", [6] = "T_REGEXP",
    [7] = "T_ARRAY",   [8] = "T_HASH",     [9] = "T_STRUCT",    [10] = "T_BIGNUM", [11] = "T_FILE",  [12] = "T_DATA",
    [13] = "T_MATCH",  [14] = "T_COMPLEX", [15] = "T_RATIONAL", [20] = "T_SYMBOL", [26] = "T_IMEMO", [27] = "T_NODE",
    [28] = "T_ICLASS", [29] = "T_ZOMBIE",  [30] = "T_MOVED",
};

typedef AS_VEC(uint64_t) owned_vec; // addresses of chunks' beginnings, and the types of their owners

struct ruby_count {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    const uint64_t *chunks; // addresses of the chunks in use, ascending
    size_t chunk_count;
    AS_VEC(uint8_t) claimed; // of each chunk: somebody has it
    struct as_type_record types[TYPES];
    bool changed; // an object has no known type
};

// Is the word the address that malloc returned for a chunk, as far as a look at the two ends tells?
static bool may_be_chunk(const struct ruby_count *c, uint64_t word)
{
    return word % CHUNK_HEADER == 0 && word > c->chunks[0] && word - CHUNK_HEADER <= c->chunks[c->chunk_count - 1];
}

// Is it in one of Ruby's own pages? Most words of objects are other objects' addresses.
static bool is_in_pages(const struct as_store *s, uint64_t word)
{
    size_t low = 0, high = s->ruby.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct as_ruby_page_record *page = &s->ruby.items[middle];
        if (word < page->address)
            high = middle;
        else if (word - page->address < page->size)
            return true;
        else
            low = middle + 1;
    }
    return false;
}

// Takes note of each word of [words, words + count) that may lead to a chunk.
static bool add_owned(struct ruby_count *c, owned_vec *owned, const uint8_t *words, size_t count, uint32_t type)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, words + i * WORD, sizeof word);
        if (!may_be_chunk(c, word) || word >> ADDRESS_BITS != 0 || is_in_pages(c->store, word))
            continue;
        uint64_t *item = as_vec_add(owned, c->err);
        if (!item)
            return false;
        *item = word << TYPE_BITS | type;
    }
    return true;
}

static bool count_page(struct ruby_count *c, const struct as_ruby_page_record *page, const uint8_t *bytes,
                       owned_vec *owned)
{
    for (uint32_t i = 0; i < page->total_slots; i++) {
        const uint8_t *slot = bytes + page->first_slot + (size_t)i * page->slot_size;
        uint64_t flags;
        memcpy(&flags, slot, sizeof flags);
        uint32_t type = flags & (TYPES - 1);
        if (flags == 0)
            continue;
        c->changed |= !names[type];
        c->types[type].count++;
        c->types[type].bytes += page->slot_size;
        if (c->chunk_count > 0 &&
            !add_owned(c, owned, slot + FIRST_WORD * WORD, page->slot_size / WORD - FIRST_WORD, type))
            return false;
    }
    return true;
}

static bool count_pages(struct ruby_count *c, owned_vec *owned)
{
    AS_VEC(uint8_t) buffer = {0};
    bool ok = as_vec_reserve(&buffer, LARGEST_PAGE, c->err);
    for (size_t i = 0; i < c->store->ruby.count && ok; i++) {
        const struct as_ruby_page_record *page = &c->store->ruby.items[i];
        if (page->slot_size == 0)
            continue;
        bool read = as_target_read_resident(c->target, page->address, buffer.items, page->size) == page->size;
        c->changed |= !read;
        ok = !read || count_page(c, page, buffer.items, owned);
    }
    as_vec_free(&buffer);
    return ok;
}

// A chunk that was just claimed.
struct claimed_chunk {
    uint64_t address;
    uint32_t type;
};

// Counts chunks with their owners, and notes what small ones lead to.
static bool count_chunks(struct ruby_count *c, const struct claimed_chunk *claimed, size_t count, owned_vec *next)
{
    struct {
        uint64_t previous, size;
        uint8_t bytes[SMALL];
    } read[BATCH];
    uint64_t addresses[BATCH];
    bool readable[BATCH];
    if (count == 0)
        return true;
    for (size_t i = 0; i < count; i++)
        addresses[i] = claimed[i].address;
    as_target_gather(c->target, addresses, count, CHUNK_HEADER, read, sizeof *read, readable);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = read[i].size & ~(uint64_t)SIZE_FLAGS;
        if (!readable[i] || size < 2 * CHUNK_HEADER || size >> ADDRESS_BITS != 0) {
            c->changed = true;
            continue;
        }
        c->types[claimed[i].type].owned_malloc_bytes += size;
        size_t words = size / WORD - 1; // up to the size of the next chunk
        if (size <= SMALL && claimed[i].type != T_STRING && next &&
            as_target_read(c->target, addresses[i] + CHUNK_HEADER, read[i].bytes, words * WORD) &&
            !add_owned(c, next, read[i].bytes, words, claimed[i].type))
            return false;
    }
    return true;
}

// Gives the chunks that `owned` leads to to their owners, the first of each; what they lead to goes to `next`.
static bool claim(struct ruby_count *c, owned_vec *owned, owned_vec *next)
{
    struct claimed_chunk batch[BATCH];
    size_t pending = 0, chunk = 0;
    if (!as_sort_u64(owned->items, owned->count, c->err))
        return false;
    for (size_t i = 0; i < owned->count; i++) {
        uint64_t address = (owned->items[i] >> TYPE_BITS) - CHUNK_HEADER;
        while (chunk < c->chunk_count && c->chunks[chunk] < address)
            chunk++;
        if (chunk == c->chunk_count)
            break;
        if (c->chunks[chunk] != address || c->claimed.items[chunk])
            continue;
        c->claimed.items[chunk] = 1;
        batch[pending++] = (struct claimed_chunk){address, owned->items[i] & (TYPES - 1)};
        if (pending == BATCH) {
            if (!count_chunks(c, batch, pending, next))
                return false;
            pending = 0;
        }
    }
    return count_chunks(c, batch, pending, next);
}

static bool follow(struct ruby_count *c)
{
    owned_vec owned[STEPS] = {0};
    bool ok = as_vec_reserve(&c->claimed, c->chunk_count, c->err) && count_pages(c, &owned[0]);
    c->claimed.count = c->chunk_count;
    for (int i = 0; i < STEPS && ok; i++)
        ok = claim(c, &owned[i], i + 1 < STEPS ? &owned[i + 1] : NULL);
    for (int i = 0; i < STEPS; i++)
        as_vec_free(&owned[i]);
    as_vec_free(&c->claimed);
    return ok;
}

static uint64_t bytes_of(const struct as_type_record *t)
{
    return t->bytes + t->owned_malloc_bytes;
}

// Adds the types that have objects, those with the most bytes first.
static bool add_types(struct ruby_count *c, uint32_t runtime)
{
    for (;;) {
        struct as_type_record *most = NULL;
        for (int i = 0; i < TYPES; i++)
            if (c->types[i].count > 0 && (!most || bytes_of(&c->types[i]) > bytes_of(most)))
                most = &c->types[i];
        if (!most)
            return true;
        struct as_type_record *record = as_vec_add(&c->store->types, c->err);
        if (!record)
            return false;
        const char *name = names[most - c->types];
        *record = *most;
        record->runtime = runtime;
        record->tracked = most->count;
        record->name = as_strings_add(&c->store->strings, name ? name : "unknown", LARGEST_PAGE);
        most->count = 0;
    }
}

bool as_ruby_objects(struct as_target *t, struct as_store *store, const uint64_t *chunks, size_t chunk_count,
                     struct as_error *err)
{
    if (store->meta.ruby == AS_RUBY_NONE)
        return true;
    uint32_t runtime = as_runtime_add(store, AS_RUNTIME_RUBY, AS_ROW_ruby_pages, err);
    if (runtime == UINT32_MAX)
        return false;
    struct ruby_count c = {
        .target = t,
        .store = store,
        .err = err,
        .chunks = chunks,
        .chunk_count = chunk_count,
    };
    bool found = store->meta.ruby == AS_RUBY_FOUND;
    if (found && (!follow(&c) || !add_types(&c, runtime)))
        return false;
    struct as_runtime_record *record = &store->runtimes.items[runtime];
    record->state = found ? AS_REGIONS_FOUND : AS_REGIONS_UNPROVEN;
    record->releases = store->meta.ruby_releases;
    record->objects = !found ? AS_OBJECTS_UNKNOWN : c.changed ? AS_OBJECTS_ESTIMATED : AS_OBJECTS_COUNTED;
    return true;
}
