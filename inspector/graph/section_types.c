// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "base/workers.h"
#include "graph/parallel.h"
#include "graph/section_owners.h"
#include "graph/types.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_TYPES = 1 << 18,
    MOST_RECORDS = 10000, // and one for all others
    NAME = 4096,
    KNOWN = 256, // types whose numbers a thread knows without a search
};

// Types of one name: a record to be.
struct named {
    uint32_t name; // in the strings of `names`
    const char *evidence;
    uint64_t count, bytes;
    uint32_t first;  // node: the first of its chunks
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
                *added = (struct named){.number = number,
                                        .first = AS_NO_NODE,
                                        .name = as_strings_add(&n->strings, name, NAME),
                                        .evidence = evidence};
            return added;
        }
        struct named *known = &n->list.items[number];
        if (known->evidence == evidence && strcmp(as_strings_at(&n->strings, known->name), name) == 0)
            return known;
    }
}

// The chunks in use of a type, and the first of them.
struct counted_type {
    struct as_tally tally;
    uint32_t first; // node
};

// The types of the nodes [from, to), numbered in the order in which they are met.
struct type_counts {
    const struct as_graph *graph;
    struct as_part nodes;
    struct as_keys numbers;
    AS_VEC(struct counted_type) list; // by number
    struct as_error err;
    bool ok;
};

// Those with lower nodes come first.
static bool add_counted(struct type_counts *c, uint32_t number, struct counted_type more, struct as_error *err)
{
    if (number == AS_NO_KEY)
        return as_fail(err, AS_NO_MEMORY, "no memory for more than %d types", MOST_TYPES);
    if (number == c->list.count) {
        return as_vec_push(&c->list, err, more);
    }
    c->list.items[number].tally.count += more.tally.count;
    c->list.items[number].tally.bytes += more.tally.bytes;
    return true;
}

// Most chunks are of few types: a number that is known already takes no search. (1 is added to each type: all zero knows none.)
struct known_number {
    uint32_t type, number;
};

static bool count_chunk(struct type_counts *c, struct known_number *known, uint32_t type, struct as_used_chunk chunk)
{
    uint64_t bytes = as_used_bytes(&c->graph->index, &chunk);
    if (known->type == type + 1) {
        struct as_tally *tally = &c->list.items[known->number].tally;
        tally->count++;
        tally->bytes += bytes;
        return true;
    }
    *known = (struct known_number){type + 1, as_key_add(&c->numbers, type)};
    return add_counted(c, known->number, (struct counted_type){{1, bytes}, chunk.node}, &c->err);
}

static void *count_chunks(void *counts)
{
    struct type_counts *c = counts;
    struct known_number known[KNOWN] = {0};
    struct as_used_chunk chunks[AS_USED_SOME];
    c->ok = as_keys_open(&c->numbers, MOST_TYPES, &c->err);
    if (c->nodes.from == c->nodes.to)
        return NULL;
    struct as_used_cursor used = as_used_from(&c->graph->index, c->nodes.from);
    for (size_t count; c->ok && (count = as_used_some(&used, c->nodes.to, chunks)) > 0;)
        for (size_t i = 0; c->ok && i < count; i++) {
            uint32_t type = as_graph_type(c->graph, chunks[i].node);
            c->ok = count_chunk(c, &known[type % KNOWN], type, chunks[i]);
        }
    return NULL;
}

static bool join_counts(struct type_counts *to, const struct type_counts *from, struct as_error *err)
{
    if (!from->ok)
        return as_fail(err, from->err.code, "%s", from->err.text);
    for (size_t i = 0; i < from->list.count; i++)
        if (!add_counted(to, as_key_add(&to->numbers, from->numbers.list.items[i]), from->list.items[i], err))
            return false;
    return true;
}

static void close_counts(struct type_counts *c)
{
    as_keys_close(&c->numbers);
    as_vec_free(&c->list);
}

// Numbers the types of all chunks in use, and counts these, with as many threads as there are processors.
static bool count_types(struct type_counts *all, const struct as_graph *g, struct as_error *err)
{
    struct type_counts parts[AS_MOST_PARTS] = {0};
    struct as_part cut[AS_MOST_PARTS];
    const uint32_t count = as_parts_cut(g->index.count, cut);
    for (uint32_t i = 0; i < count; i++) {
        parts[i].graph = g;
        parts[i].nodes = cut[i];
    }
    as_workers_run(count_chunks, parts, sizeof *parts, count);
    bool ok = as_keys_open(&all->numbers, MOST_TYPES, err);
    for (uint32_t i = 0; i < count; i++) {
        ok = ok && join_counts(all, &parts[i], err);
        close_counts(&parts[i]);
    }
    return ok;
}

static bool name_types(struct type_names *n, const struct type_counts *counts, const struct as_graph *g,
                       struct as_error *err)
{
    if (!as_vec_reserve(&n->of_number, counts->list.count, err) || !as_keys_open(&n->hashes, MOST_TYPES, err))
        return false;
    for (size_t i = 0; i < counts->list.count; i++) {
        uint32_t type = (uint32_t)counts->numbers.list.items[i];
        char text[NAME];
        const char *name = as_graph_type_name(g, type, text, sizeof text);
        struct named *entry =
            entry_of(n, name ? name : "", name ? as_evidence_name(as_graph_type_evidence(g, type)) : NULL);
        if (!entry)
            return as_fail(err, AS_NO_MEMORY, "no memory for the names of types");
        const struct counted_type *of = &counts->list.items[i];
        entry->count += of->tally.count;
        entry->bytes += of->tally.bytes;
        entry->first = of->first < entry->first ? of->first : entry->first;
        n->of_number.items[n->of_number.count++] = (uint32_t)(entry - n->list.items);
    }
    return true;
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
            record->name = as_strings_add(&s->strings, as_strings_at(&n->strings, entry->name), AS_SECTION_NAME_BYTES);
            record->evidence = evidence_string(s, sorted.items, i, entry->evidence);
        }
        record->count += entry->count;
        record->bytes += entry->bytes;
        n->list.items[entry->number].record = (uint32_t)(record - s->graph_types.items);
    }
    as_vec_free(&sorted);
    return ok;
}

// None for that of all others.
static bool note_examples(struct as_type_records *r, const struct type_names *n, const struct as_store *s,
                          struct as_error *err)
{
    if (!as_vec_reserve(&r->examples, s->graph_types.count, err))
        return false;
    r->examples.count = s->graph_types.count;
    for (size_t i = 0; i < n->list.count; i++) {
        const uint32_t record = n->list.items[i].record;
        r->examples.items[record] = record < MOST_RECORDS ? n->list.items[i].first : AS_NO_NODE;
    }
    return true;
}

bool as_type_records_make(struct as_type_records *r, struct as_store *s, const struct as_graph *g, struct as_error *err)
{
    struct type_names names = {0};
    *r = (struct as_type_records){0};
    struct type_counts counts = {0};
    bool ok = count_types(&counts, g, err) && name_types(&names, &counts, g, err) && write_records(&names, s, err) &&
              as_vec_reserve(&r->of_number, counts.list.count, err) && note_examples(r, &names, s, err);
    for (size_t i = 0; ok && i < counts.list.count; i++)
        r->of_number.items[r->of_number.count++] = names.list.items[names.of_number.items[i]].record;
    AS_FREE_VECS(&names, strings, list, of_number);
    r->numbers = counts.numbers;
    as_vec_free(&counts.list);
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
    AS_FREE_VECS(r, of_number, examples);
}
