// SPDX-License-Identifier: MIT
// Ruby's objects one by one, for the graph: each slot in use, with its class; and malloc's memory that a word of a slot leads to.
#include "runtimes/ruby_classes.h"
#include "runtimes/ruby_transient.h"
#include "runtimes/ruby_weak.h"

#include <stdio.h>
#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    HEAD = 2 * WORD,       // of every object: its flags, its class
    LEAST_SLOT = 4 * WORD, // so that no two slots begin in the same 16 bytes
    LARGEST_PAGE = 65536,
    CHUNK_ALIGNMENT = 16,
    TABLE = 8,   // words of st_table, in which its bins and entries are (include/ruby/st.h)
    BATCH = 256, // tables that are read in one go
    NAME = 256,
    FLAG_USER1 = 1 << 13, // RSTRING_NOEMBED, RARRAY_EMBED_FLAG (include/ruby/internal/core/, 3.1 to 4.0)
    FLAG_USER2 = 1 << 14, // BIGNUM_EMBED_FLAG
    EMBEDDED_SHIFT = 15,  // of an Array's flags: how many items are in its slot
    EMBEDDED_MASK = 0x7f,
};

struct ruby_visit {
    struct as_target *target;
    const struct as_store *store;
    const struct as_range *heaps;
    const struct as_object_visitor *visitor;
    struct as_error *err;
    struct as_ruby_classes classes;
    AS_VEC(uint64_t) tables; // of Hashes: addresses
    AS_VEC(uint32_t) owners; // parallel to these: type's number
    struct as_range arena;   // of the transient heap
    as_ruby_transient_vec transient;
    bool known, changed;
};

bool as_ruby_is_apart(const struct as_store *store)
{
    if (store->meta.ruby != AS_RUBY_FOUND || store->ruby.count == 0 || !as_ruby_layout_of(store))
        return false;
    for (size_t i = 0; i < store->ruby.count; i++)
        if (store->ruby.items[i].heap != UINT32_MAX)
            return false;
    return true;
}

// How many bytes of a slot may hold addresses; 0: all, as far as is known.
static uint64_t used_of(uint64_t flags)
{
    switch (as_ruby_type_of(flags)) {
    case AS_RUBY_T_FLOAT:
        return HEAD;
    case AS_RUBY_T_BIGNUM:
        return flags & FLAG_USER2 ? HEAD : 0;
    case AS_RUBY_T_STRING:
        return flags & FLAG_USER1 ? 0 : HEAD;
    case AS_RUBY_T_ARRAY:
        return flags & FLAG_USER1 ? HEAD + (flags >> EMBEDDED_SHIFT & EMBEDDED_MASK) * WORD : 0;
    default:
        return 0;
    }
}

// Tells of each word of [words, words + count) that may be what malloc returned, to an object at an address, with these flags (0: to what
// it has).
static bool visit_memory(struct ruby_visit *v, const uint64_t *words, size_t count, uint32_t type, uint64_t object,
                         uint64_t flags)
{
    uint32_t kind = as_ruby_type_of(flags);
    bool of_hash = kind == AS_RUBY_T_HASH,
         young = of_hash || kind == AS_RUBY_T_ARRAY || kind == AS_RUBY_T_OBJECT || kind == AS_RUBY_T_STRUCT;
    for (size_t i = 0; i < count; i++) {
        uint64_t word = words[i];
        if (young && word % WORD == 0 && word - v->arena.start < v->arena.end - v->arena.start) {
            if (!as_vec_push(&v->transient, v->err,
                             (struct as_ruby_transient){.address = word, .object = object, .type = type}))
                return false;
        }
        if (word % CHUNK_ALIGNMENT != 0 || word <= v->heaps->start || word >= v->heaps->end ||
            as_ruby_in_pages(v->store, word))
            continue;
        if (!v->visitor->memory(v->visitor->context,
                                &(struct as_visited_memory){.address = word, .type = type, .begins = true}))
            return false;
        uint64_t *table = of_hash ? as_vec_add(&v->tables, v->err) : NULL;
        uint32_t *owner = table ? as_vec_add(&v->owners, v->err) : NULL;
        if (of_hash && !owner)
            return false;
        if (of_hash) {
            *table = word;
            *owner = type;
        }
    }
    return true;
}

// A Hash's memory may be a table, which has more.
static bool visit_tables(struct ruby_visit *v)
{
    uint64_t tables[BATCH][TABLE];
    bool ok[BATCH];
    for (size_t at = 0; at < v->tables.count; at += BATCH) {
        size_t count = v->tables.count - at < BATCH ? v->tables.count - at : BATCH;
        as_target_gather(v->target, v->tables.items + at, count, sizeof *tables, tables, sizeof *tables, ok);
        for (size_t i = 0; i < count; i++)
            if (ok[i] && !visit_memory(v, tables[i], TABLE, v->owners.items[at + i], 0, 0))
                return false;
    }
    return true;
}

static bool visit_page(struct ruby_visit *v, const struct as_ruby_page_record *page, const uint8_t *bytes,
                       uint32_t from, uint64_t region_end)
{
    for (uint32_t i = from; i < page->total_slots; i++) {
        uint32_t offset = page->first_slot + i * page->slot_size, type;
        uint64_t words[LARGEST_PAGE / WORD];
        size_t count = page->slot_size / WORD;
        memcpy(words, bytes + offset, HEAD);
        if (words[0] == 0)
            continue;
        v->changed |= !as_ruby_type_name(as_ruby_type_of(words[0]));
        if (!as_ruby_pair_of(&v->classes, words[0], words[1], &type, v->err))
            return false;
        bool typed = type != AS_RUBY_NO_PAIR;
        uint64_t used = used_of(words[0]);
        used = used < page->slot_size ? used : 0;
        if (!v->visitor->block(v->visitor->context, &(struct as_visited_block){
                                                        .address = page->address + offset,
                                                        .size = page->slot_size,
                                                        .region_end = region_end,
                                                        .type = typed ? type : UINT32_MAX,
                                                        .used = used,
                                                    }))
            return false;
        if (used != 0 || !typed)
            continue;
        memcpy(words, bytes + offset, count * WORD);
        if (!visit_memory(v, words + HEAD / WORD, count - HEAD / WORD, type, page->address + offset, words[0]))
            return false;
    }
    return true;
}

// Do a page's slots lie in it, one behind the other?
static bool is_sound(const struct as_ruby_page_record *page)
{
    return page->size <= LARGEST_PAGE && page->slot_size >= LEAST_SLOT && page->slot_size % WORD == 0 &&
           page->first_slot % WORD == 0 && page->first_slot >= WORD && page->address % CHUNK_ALIGNMENT == 0 &&
           page->first_slot + (uint64_t)page->total_slots * page->slot_size <= page->size;
}

static bool follows_heap(const struct as_store *s, uint64_t address)
{
    for (size_t i = 0; i < s->heaps.count; i++)
        if (s->heaps.items[i].end == address)
            return true;
    return false;
}

static uint64_t end_of(const struct as_ruby_page_record *page)
{
    return page->address + page->size;
}

// Begins the pages that follow each other from `page` on. *left_out: the first slot cannot be a node, because what would be its header
// is malloc's. It is no part of the region, and so a root.
static bool begin_region(struct ruby_visit *v, size_t page, uint64_t *end, bool *left_out)
{
    const struct as_ruby_page_record *first = &v->store->ruby.items[page];
    uint64_t start = first->address;
    *end = end_of(first);
    for (size_t i = page + 1; i < v->store->ruby.count && v->store->ruby.items[i].address == *end; i++)
        *end = end_of(&v->store->ruby.items[i]);
    // Or it begins in the 16 bytes in which malloc's heap ends: the index of nodes has one place for both.
    bool disputed = first->first_slot < 2 * CHUNK_ALIGNMENT && first->first_slot != CHUNK_ALIGNMENT;
    *left_out = first->slot_size != 0 && disputed && follows_heap(v->store, start);
    if (*left_out)
        start += first->first_slot + first->slot_size;
    return v->visitor->region(v->visitor->context, start, *end);
}

static bool visit_pages(struct ruby_visit *v)
{
    AS_VEC(uint8_t) buffer = {0};
    uint64_t region_end = 0;
    bool ok = as_vec_reserve(&buffer, LARGEST_PAGE, v->err);
    for (size_t i = 0; ok && v->known && i < v->store->ruby.count; i++) {
        const struct as_ruby_page_record *page = &v->store->ruby.items[i];
        bool left_out = false;
        if (page->address >= region_end)
            ok = begin_region(v, i, &region_end, &left_out);
        if (!ok || page->slot_size == 0)
            continue;
        v->known = is_sound(page);
        bool read =
            v->known && as_target_read_resident(v->target, page->address, buffer.items, page->size) == page->size;
        v->changed |= !read;
        ok = !read || visit_page(v, page, buffer.items, left_out, region_end);
    }
    as_vec_free(&buffer);
    return ok;
}

static const char *memory_of(uint32_t type)
{
    switch (type) {
    case AS_RUBY_T_OBJECT:
        return "instance variables";
    case AS_RUBY_T_STRING:
        return "bytes";
    case AS_RUBY_T_ARRAY:
        return "elements";
    case AS_RUBY_T_HASH:
        return "table";
    case AS_RUBY_T_STRUCT:
        return "members";
    case AS_RUBY_T_BIGNUM:
        return "digits";
    case AS_RUBY_T_REGEXP:
        return "pattern";
    case AS_RUBY_T_CLASS:
    case AS_RUBY_T_MODULE:
    case AS_RUBY_T_ICLASS:
        return "tables";
    case AS_RUBY_T_DATA:
        return "data";
    default:
        return "memory";
    }
}

// The name of a pair: its class, where that has a name; else what is known of it.
static void name_pair(struct ruby_visit *v, const struct as_ruby_name_place *place, bool named,
                      const struct as_ruby_pair *pair, char name[NAME])
{
    const char *type = as_ruby_type_name(pair->type);
    type = type ? type : "unknown";
    if (pair->kind == AS_CLASS_SINGLETON)
        snprintf(name, NAME, "%s (singleton class)", type);
    else if (pair->kind != AS_CLASS_NAMED || !named)
        snprintf(name, NAME, "%s", type);
    else if (!as_ruby_class_name(&v->classes, place, pair->class, name, NAME))
        snprintf(name, NAME, "%s (class without a name)", type);
}

static bool visit_types(struct ruby_visit *v)
{
    struct as_ruby_name_place place;
    bool named = as_ruby_find_names(&v->classes, &place);
    for (size_t i = 0; i < v->classes.pairs.count; i++) {
        const struct as_ruby_pair *pair = &v->classes.pairs.items[i];
        char name[NAME];
        name_pair(v, &place, named, pair, name);
        if (!v->visitor->type(v->visitor->context, &(struct as_visited_type){.address = pair->class,
                                                                             .name = name,
                                                                             .memory = memory_of(pair->type),
                                                                             .bytes = pair->type == AS_RUBY_T_STRING ||
                                                                                      pair->type == AS_RUBY_T_BIGNUM,
                                                                             .of_heap = true}))
            return false;
    }
    return as_ruby_visit_weak_types(v->visitor);
}

bool as_ruby_visit(struct as_target *t, const struct as_store *store, const struct as_range *heaps,
                   const uint64_t *chunks, size_t chunk_count, const struct as_object_visitor *visitor,
                   struct as_visited *visited, struct as_error *err)
{
    struct ruby_visit v = {
        .target = t,
        .store = store,
        .heaps = heaps,
        .visitor = visitor,
        .err = err,
        .classes = {.target = t, .store = store, .layout = as_ruby_layout_of(store)},
        .known = true,
    };
    bool ok = as_ruby_find_arena(t, &v.arena, err) && visit_pages(&v) && visit_tables(&v) &&
              as_ruby_visit_transient(t, &v.arena, &v.transient, visitor) &&
              as_ruby_visit_weak(t, store, chunks, chunk_count,
                                 v.arena.end != 0 ? as_ruby_find_promoted(t, store->ruby_interpreter, &v.arena) : 0,
                                 (uint32_t)v.classes.pairs.count, visitor) &&
              visit_types(&v);
    *visited = (struct as_visited){
        .known = v.known, .changed = v.changed, .collector_off = as_ruby_collector_is_off(t, store)};
    as_ruby_classes_free(&v.classes);
    AS_FREE_VECS(&v, tables, owners, transient);
    return ok;
}
