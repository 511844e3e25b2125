// SPDX-License-Identifier: MIT
#include "graph/record_types.h"
#include "base/memory.h"
#include "graph/types.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TYPES = 1 << 18,
    MOST_RECORDS = 10000, // and one for all others
    NAME = 4096,
};

// Types of one name: a record to be.
struct named {
    uint32_t name; // in the strings of `names`
    const char *evidence;
    uint64_t count, bytes;
    uint32_t number; // its index in the list
    uint32_t record;
};

struct type_names {
    struct as_strings strings;
    AS_VEC(struct named) list;
    struct as_keys hashes;      // of the names: the number is the index in the list
    AS_VEC(uint32_t) of_number; // by the number of a type: index in the list
};

static uint64_t hash_of(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *text; text++)
        hash = (hash ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return hash;
}

// The entry of a name. Two names of one hash are two entries nevertheless.
static struct named *entry_of(struct type_names *n, const char *name, const char *evidence)
{
    uint64_t hash = hash_of(name) + (evidence ? hash_of(evidence) : 0);
    for (;; hash++) {
        uint32_t number = as_key_add(&n->hashes, hash);
        if (number == AS_NO_KEY)
            return NULL;
        if (number == n->list.count) {
            struct named *added = as_vec_add(&n->list, NULL);
            if (added)
                *added = (struct named){
                    .number = number, .name = as_strings_add(&n->strings, name, NAME), .evidence = evidence};
            return added;
        }
        struct named *known = &n->list.items[number];
        if (known->evidence == evidence && strcmp(as_strings_at(&n->strings, known->name), name) == 0)
            return known;
    }
}

static bool name_types(struct type_names *n, const struct as_type_records *r, const struct as_graph *g,
                       struct as_error *err)
{
    if (!as_vec_reserve(&n->of_number, r->numbers.list.count, err) || !as_keys_open(&n->hashes, MOST_TYPES, err))
        return false;
    for (size_t i = 0; i < r->numbers.list.count; i++) {
        uint32_t type = (uint32_t)r->numbers.list.items[i];
        char text[NAME];
        const char *name = as_graph_type_name(g, type, text, sizeof text);
        struct named *entry =
            entry_of(n, name ? name : "", name ? as_evidence_name(as_graph_type_evidence(g, type)) : NULL);
        if (!entry)
            return as_fail(err, AS_NO_MEMORY, "no memory for the names of types");
        n->of_number.items[n->of_number.count++] = (uint32_t)(entry - n->list.items);
    }
    return true;
}

static void count_chunks(struct type_names *n, const struct as_type_records *r, const struct as_graph *g)
{
    struct as_used_cursor c = as_used_begin(&g->index);
    struct as_used_chunk chunk;
    while (as_used_next(&c, &chunk)) {
        uint32_t number = as_key_find(&r->numbers, as_graph_type(g, chunk.node));
        if (number == AS_NO_KEY)
            continue;
        struct named *entry = &n->list.items[n->of_number.items[number]];
        entry->count++;
        entry->bytes += chunk.size;
    }
}

static int by_bytes(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

// The strings of evidence are few: each stands once in the store.
static uint32_t evidence_string(struct as_store *s, const struct named *sorted, size_t before, const char *evidence)
{
    if (!evidence)
        return 0;
    for (size_t i = 0; i < before && i < s->graph_types.count; i++)
        if (sorted[i].evidence == evidence)
            return s->graph_types.items[i].evidence;
    return as_strings_add(&s->strings, evidence, NAME);
}

static bool write_records(struct type_names *n, struct as_store *s, struct as_error *err)
{
    AS_VEC(struct named) sorted = {0};
    bool ok = as_vec_reserve(&sorted, n->list.count, err);
    for (size_t i = 0; ok && i < n->list.count; i++)
        sorted.items[sorted.count++] = n->list.items[i];
    if (ok && sorted.count > 0)
        qsort(sorted.items, sorted.count, sizeof *sorted.items, by_bytes);
    for (size_t i = 0; ok && i < sorted.count; i++) {
        const struct named *entry = &sorted.items[i];
        struct as_graph_type_record *record =
            i <= MOST_RECORDS ? as_vec_add(&s->graph_types, err) : &s->graph_types.items[MOST_RECORDS];
        ok = record;
        if (!ok)
            break;
        record->flags = i >= MOST_RECORDS ? AS_GRAPH_OTHERS : 0;
        if (i < MOST_RECORDS) {
            record->name = as_strings_add(&s->strings, as_strings_at(&n->strings, entry->name), AS_RECORD_NAME);
            record->evidence = evidence_string(s, sorted.items, i, entry->evidence);
        }
        record->count += entry->count;
        record->bytes += entry->bytes;
        n->list.items[entry->number].record = (uint32_t)(record - s->graph_types.items);
    }
    as_vec_free(&sorted);
    return ok;
}

bool as_type_records_make(struct as_type_records *r, struct as_store *s, const struct as_graph *g, struct as_error *err)
{
    struct type_names names = {0};
    *r = (struct as_type_records){0};
    bool ok = as_keys_open(&r->numbers, MOST_TYPES, err);
    struct as_used_cursor c = as_used_begin(&g->index);
    struct as_used_chunk chunk;
    while (ok && as_used_next(&c, &chunk))
        ok = as_key_add(&r->numbers, as_graph_type(g, chunk.node)) != AS_NO_KEY ||
             as_fail(err, AS_NO_MEMORY, "no memory for more than %d types", MOST_TYPES);
    ok = ok && name_types(&names, r, g, err);
    if (ok)
        count_chunks(&names, r, g);
    ok = ok && write_records(&names, s, err) && as_vec_reserve(&r->of_number, r->numbers.list.count, err);
    for (size_t i = 0; ok && i < r->numbers.list.count; i++)
        r->of_number.items[r->of_number.count++] = names.list.items[names.of_number.items[i]].record;
    as_vec_free(&names.strings);
    as_vec_free(&names.list);
    as_vec_free(&names.of_number);
    as_keys_close(&names.hashes);
    return ok;
}

uint32_t as_type_record_of(const struct as_type_records *r, uint32_t type)
{
    uint32_t number = as_key_find(&r->numbers, type);
    return number == AS_NO_KEY ? UINT32_MAX : r->of_number.items[number];
}

// The dominator tree from the top down: the children of each place as a list, and how many places of each type are above.
struct descent {
    const struct as_dominators *d;
    uint32_t *child, *next; // of each place; 0: none
    uint32_t *above;        // by record
};

static uint32_t record_at(const struct as_type_records *r, const struct as_graph *g, const struct as_dominators *d,
                          uint32_t place)
{
    uint32_t vertex = d->vertex[place];
    return place == 0 || vertex < d->owners ? UINT32_MAX : as_type_record_of(r, as_graph_type(g, vertex - d->owners));
}

// A place of a type retains for its type what no place of the type above it does already.
static void descend(const struct descent *w, const struct as_type_records *r, struct as_store *s,
                    const struct as_graph *g)
{
    const struct as_dominators *d = w->d;
    for (uint32_t place = w->child[0]; place != 0;) {
        uint32_t record = record_at(r, g, d, place);
        if (record != UINT32_MAX && w->above[record]++ == 0)
            s->graph_types.items[record].retained += d->retained[place];
        if (w->child[place] != 0) {
            place = w->child[place];
            continue;
        }
        for (;;) { // up, until there is a sibling
            record = record_at(r, g, d, place);
            if (record != UINT32_MAX)
                w->above[record]--;
            if (w->next[place] != 0 || d->parent[place] == 0)
                break;
            place = d->parent[place];
        }
        place = w->next[place];
    }
}

bool as_type_records_retain(const struct as_type_records *r, struct as_store *s, const struct as_graph *g,
                            const struct as_dominators *d, struct as_error *err)
{
    size_t places = (size_t)d->count + 1, types = s->graph_types.count + 1;
    struct descent w = {.d = d};
    w.child = as_memory_map(places * sizeof *w.child, "the tree of what is retained", err);
    w.next = as_memory_map(places * sizeof *w.next, "the tree of what is retained", err);
    w.above = as_memory_map(types * sizeof *w.above, "the tree of what is retained", err);
    bool ok = w.child && w.next && w.above;
    for (uint32_t place = d->count - 1; ok && d->count > 0 && place > 0; place--) {
        w.next[place] = w.child[d->parent[place]];
        w.child[d->parent[place]] = place;
    }
    if (ok)
        descend(&w, r, s, g);
    as_memory_unmap(w.child, places * sizeof *w.child);
    as_memory_unmap(w.next, places * sizeof *w.next);
    as_memory_unmap(w.above, types * sizeof *w.above);
    return ok;
}

void as_type_records_free(struct as_type_records *r)
{
    as_keys_close(&r->numbers);
    as_vec_free(&r->of_number);
}
