// SPDX-License-Identifier: MIT
// Ruby's objects by their type (T_STRING, ...), and the chunks of malloc that they point to. Each slot of each page is inspected
// once: its flags say the type, and a word of it that is exactly the beginning of a chunk in use leads to memory that the object
// has besides its slot. From small chunks other chunks are followed, as from a Hash's table to its entries; each chunk is
// counted once. No layout of any class is needed, so this holds for all releases.
#include "base/sort.h"
#include "runtimes/regions.h"
#include "runtimes/ruby_classes.h"
#include "runtimes/ruby_marks.h"

#include <string.h>

enum {
    TYPES = AS_RUBY_TYPES,
    LARGEST_PAGE = 65536,
    WORD = sizeof(uint64_t),
    FIRST_WORD = 2, // of a slot, behind its flags and its class
    CHUNK_HEADER = 16,
    SIZE_FLAGS = 7,
    SMALL = 512, // bytes of a chunk in which other chunks' addresses are searched for: a table's head, not a buffer
    STEPS = 3,   // from a slot: to a table, and to what the table has
    BATCH = 256, // chunks that are read in one go
    TYPE_BITS = 5,
    NOT_MARKED_SHIFT = TYPE_BITS + AS_RUBY_PAIR_BITS,
    OWNER_BITS = NOT_MARKED_SHIFT + 1, // beside an address in units of CHUNK_HEADER: mark, type and pair of its owner
    ADDRESS_BITS = 48,
};

typedef AS_VEC(uint64_t) owned_vec; // addresses of chunks' beginnings, and their owners

struct ruby_count {
    struct as_target *target;
    struct as_store *store;
    struct as_error *err;
    const uint64_t *chunks; // addresses of the chunks in use, ascending
    size_t chunk_count;
    AS_VEC(uint8_t) claimed; // of each chunk: somebody has it
    struct as_type_record types[TYPES];
    struct as_ruby_classes classes;
    struct as_ruby_marks marks;
    bool changed; // an object has no known type
};

// Is the word the address that malloc returned for a chunk, as far as a snapshot of the two ends tells?
static bool may_be_chunk(const struct ruby_count *c, uint64_t word)
{
    return word % CHUNK_HEADER == 0 && word > c->chunks[0] && word - CHUNK_HEADER <= c->chunks[c->chunk_count - 1];
}

// Takes note of each word of [words, words + count) that may lead to a chunk.
static bool add_owned(struct ruby_count *c, owned_vec *owned, const uint8_t *words, size_t count, uint32_t owner)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t word;
        memcpy(&word, words + i * WORD, sizeof word);
        if (!may_be_chunk(c, word) || word >> ADDRESS_BITS != 0 || as_ruby_in_pages(c->store, word))
            continue;
        if (!as_vec_push(owned, c->err, word / CHUNK_HEADER << OWNER_BITS | owner))
            return false;
    }
    return true;
}

// Counts an object to its class. *pair: which, with its type.
static bool count_class(struct ruby_count *c, const struct as_ruby_page_record *page, const uint64_t head[2],
                        bool not_marked, uint32_t *pair)
{
    if (!as_ruby_pair_of(&c->classes, head[0], head[1], pair, c->err))
        return false;
    if (*pair != AS_RUBY_NO_PAIR) {
        struct as_ruby_pair *counted = &c->classes.pairs.items[*pair];
        counted->count++;
        counted->bytes += page->slot_size;
        counted->not_marked += not_marked;
        counted->not_marked_bytes += not_marked ? page->slot_size : 0;
    }
    return true;
}

static bool count_page(struct ruby_count *c, const struct as_ruby_page_record *page, const uint8_t *bytes,
                       owned_vec *owned)
{
    as_ruby_marks_begin(&c->marks, c->target, page, bytes);
    for (uint32_t i = 0; i < page->total_slots; i++) {
        uint32_t offset = page->first_slot + i * page->slot_size, pair;
        uint64_t head[FIRST_WORD];
        memcpy(head, bytes + offset, sizeof head);
        uint32_t type = as_ruby_type_of(head[0]);
        if (head[0] == 0)
            continue;
        bool not_marked = as_ruby_not_marked(&c->marks, head[0], offset);
        c->changed |= !as_ruby_type_name(type);
        c->types[type].count++;
        c->types[type].bytes += page->slot_size;
        if (!count_class(c, page, head, not_marked, &pair))
            return false;
        uint32_t owner = (uint32_t)not_marked << NOT_MARKED_SHIFT | type << AS_RUBY_PAIR_BITS | pair;
        if (c->chunk_count > 0 &&
            !add_owned(c, owned, bytes + offset + FIRST_WORD * WORD, page->slot_size / WORD - FIRST_WORD, owner))
            return false;
    }
    as_ruby_marks_end(&c->marks);
    return true;
}

static bool count_pages(struct ruby_count *c, owned_vec *owned)
{
    AS_VEC(uint8_t) buffer = {0};
    bool ok = as_vec_reserve(&buffer, LARGEST_PAGE, c->err);
    AS_FOR_EACH_WHILE(ok, const struct as_ruby_page_record, page, &c->store->ruby) {
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
    uint32_t owner;
};

static struct as_ruby_pair *pair_of(struct ruby_count *c, uint32_t owner)
{
    uint32_t pair = owner & AS_RUBY_NO_PAIR;
    return pair != AS_RUBY_NO_PAIR ? &c->classes.pairs.items[pair] : NULL;
}

// A small chunk in which other chunks' addresses are searched for.
struct small_chunk {
    uint64_t memory, words;
    uint32_t owner;
};

// Notes what small chunks lead to.
static bool follow_small(struct ruby_count *c, const struct small_chunk *small, size_t count, owned_vec *next)
{
    uint8_t bytes[BATCH][SMALL];
    uint64_t addresses[BATCH] = {0};
    bool readable[BATCH];
    for (size_t i = 0; i < count; i++)
        addresses[i] = small[i].memory;
    as_target_gather(c->target, addresses, count, SMALL, bytes, sizeof *bytes, readable);
    for (size_t i = 0; i < count; i++) {
        // At the end of a mapping there is less than SMALL.
        if (!readable[i] && !as_target_read(c->target, small[i].memory, bytes[i], small[i].words * WORD))
            continue;
        if (!add_owned(c, next, bytes[i], small[i].words, small[i].owner))
            return false;
    }
    return true;
}

// Counts chunks with their owners, and notes what small ones lead to.
static bool count_chunks(struct ruby_count *c, const struct claimed_chunk *claimed, size_t count, owned_vec *next)
{
    struct {
        uint64_t previous, size;
    } heads[BATCH];
    struct small_chunk small[BATCH];
    uint64_t addresses[BATCH] = {0};
    bool readable[BATCH];
    size_t followed = 0;
    for (size_t i = 0; i < count; i++)
        addresses[i] = claimed[i].address;
    as_target_gather(c->target, addresses, count, CHUNK_HEADER, heads, sizeof *heads, readable);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = heads[i].size & ~(uint64_t)SIZE_FLAGS;
        if (!readable[i] || size < 2 * CHUNK_HEADER || size >> ADDRESS_BITS != 0) {
            c->changed = true;
            continue;
        }
        uint32_t owner = claimed[i].owner, type = owner >> AS_RUBY_PAIR_BITS & (TYPES - 1);
        struct as_ruby_pair *pair = pair_of(c, owner);
        c->types[type].owned_malloc_bytes += size;
        if (pair) {
            pair->owned += size;
            pair->not_marked_bytes += owner >> NOT_MARKED_SHIFT ? size : 0;
        }
        if (size <= SMALL && type != AS_RUBY_T_STRING && next) // its words reach up to the size of the next chunk
            small[followed++] = (struct small_chunk){addresses[i] + CHUNK_HEADER, size / WORD - 1, owner};
    }
    return follow_small(c, small, followed, next);
}

// Gives the chunks that `owned` leads to to their owners, the first of each (an object with a mark, before one without; then the type of
// the lowest number); what they lead to goes to `next`.
static bool claim(struct ruby_count *c, owned_vec *owned, owned_vec *next)
{
    struct claimed_chunk batch[BATCH];
    size_t pending = 0, chunk = 0;
    if (!as_sort_u64(owned->items, owned->count, c->err))
        return false;
    for (size_t i = 0; i < owned->count; i++) {
        uint64_t address = (owned->items[i] >> OWNER_BITS) * CHUNK_HEADER - CHUNK_HEADER;
        while (chunk < c->chunk_count && c->chunks[chunk] < address)
            chunk++;
        if (chunk == c->chunk_count)
            break;
        if (c->chunks[chunk] != address || c->claimed.items[chunk])
            continue;
        c->claimed.items[chunk] = 1;
        batch[pending++] = (struct claimed_chunk){address, owned->items[i] & ((1 << OWNER_BITS) - 1)};
        if (pending == BATCH) {
            if (!count_chunks(c, batch, pending, next))
                return false;
            pending = 0;
        }
    }
    return count_chunks(c, batch, pending, next);
}

// Learns where objects have their ages: from the first page that has an old one.
static bool learn_marks(struct ruby_count *c)
{
    AS_VEC(uint8_t) buffer = {0};
    if (!as_vec_reserve(&buffer, LARGEST_PAGE, c->err))
        return false;
    AS_FOR_EACH_WHILE(c->marks.ages == AS_RUBY_AGES_UNKNOWN, const struct as_ruby_page_record, page, &c->store->ruby) {
        if (page->slot_size > 0 &&
            as_target_read_resident(c->target, page->address, buffer.items, page->size) == page->size)
            as_ruby_marks_learn(&c->marks, page, buffer.items);
    }
    as_vec_free(&buffer);
    return true;
}

static bool follow_objects(struct ruby_count *c)
{
    owned_vec owned[STEPS] = {0};
    bool ok = as_vec_reserve(&c->claimed, c->chunk_count, c->err) && learn_marks(c) && count_pages(c, &owned[0]);
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

// Adds the types that have objects, those with the most bytes first, and tells where each is now.
static bool add_types(struct ruby_count *c, uint32_t runtime, uint32_t places[TYPES])
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
        const char *name = as_ruby_type_name((uint32_t)(most - c->types));
        places[most - c->types] = (uint32_t)(c->store->types.count - 1);
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
        .classes = {.target = t, .store = store, .layout = as_ruby_layout_of(store)},
        .marks = {.layout = as_ruby_layout_of(store)},
    };
    uint32_t places[TYPES] = {0};
    bool found = store->meta.ruby == AS_RUBY_FOUND;
    bool ok = !found || (follow_objects(&c) && add_types(&c, runtime, places) &&
                         as_ruby_add_classes(&c.classes, store, runtime, places, !c.marks.broken, err));
    as_ruby_classes_free(&c.classes);
    if (!ok)
        return false;
    struct as_runtime_record *record = &store->runtimes.items[runtime];
    record->state = found ? AS_REGIONS_FOUND : AS_REGIONS_UNPROVEN;
    record->releases = store->meta.ruby_releases;
    record->objects = !found ? AS_OBJECTS_UNKNOWN : c.changed ? AS_OBJECTS_ESTIMATED : AS_OBJECTS_COUNTED;
    return true;
}
