// SPDX-License-Identifier: MIT
#include "recognisers/redis_dicts.h"
#include "recognisers/hash_chains.h"

enum {
    WORD = sizeof(uint64_t),
    FUNCTIONS = 6, // that a dict's type begins with: hash, copies of key and value, comparison, two destructors
    COMPARE = 3,
    DICT_BYTES = 56,
    MOST_DICT = 4096, // bytes of a dict's chunk, with what is behind: a database counts the sizes of its keys there
    LEAST_ROOM = 2,   // of a table, as the exponent of 2
    MOST_ROOM = 40,
    NEXT = 2, // words of an entry of before 8.2; the key is the first
    KEY_NEXT = 1,
    KEY_BYTES = 16,  // of an entry without a value
    ROOMS = 16,      // where the tables' numbers of bits are in the last word of a dict, from the lowest bit on
    LATE_ROOMS = 32, // in 8.6
    MOST_DICTS = 1 << 18,
    MOST_TRIES = 255,
    MOST_READS = 1 << 16, // at what may be a dict, with its type in a chunk
};
#define NO_ROOM 0xff // of a table that is not there: -1

// Is there a table of functions as a dict has?
static bool may_be_type(struct as_target *t, uint64_t word)
{
    uint64_t w[FUNCTIONS];
    if (!as_target_read(t, word, w, sizeof w) || !as_target_is_code(t, w[0]) || !as_target_is_code(t, w[COMPARE]))
        return false;
    for (int i = 1; i < FUNCTIONS; i++)
        if (w[i] != 0 && !as_target_is_code(t, w[i]))
            return false;
    return true;
}

// types[i]: 0, if the i-th of the vtables cannot be a dict's type. Returns whether any may.
static bool find_types(const struct as_vtables *v, struct as_target *t, uint8_t *types)
{
    bool any = false;
    for (size_t i = 1; i < v->list.count; i++) {
        types[i] = v->list.items[i].name == 0 && may_be_type(t, v->list.items[i].word) ? MOST_TRIES : 0;
        any = any || types[i] > 0;
    }
    return any;
}

// The words of a dict: its type, two tables, how many entries each has, which bucket is moved, numbers of bits at `rooms`.
static bool accept_dict(const struct as_dicts *in, struct as_dict *d, const uint64_t w[DICT_BYTES / WORD],
                        unsigned rooms)
{
    for (int i = 0; i < AS_DICT_TABLES; i++) {
        uint64_t room = w[6] >> (rooms + 8 * (unsigned)i) & 0xff, table = w[1 + i];
        d->used[i] = w[3 + i];
        d->tables[i] = room == NO_ROOM ? AS_NO_NODE : as_proof_node(in->proof, table);
        if (room == NO_ROOM ? table != 0 || d->used[i] != 0
                            : room < LEAST_ROOM || room > MOST_ROOM || d->used[i] > in->edges->nodes ||
                                  !as_proof_is_made_for(in->proof, table, (uint64_t)WORD << room))
            return false;
    }
    bool moves = w[5] != UINT64_MAX;
    return d->tables[0] != AS_NO_NODE && moves == (d->tables[1] != AS_NO_NODE) && d->used[0] + d->used[1] > 0;
}

// An entry without a value: its key, and the next one, to both of which tagged pointers lead. A text has no pointer in its beginning.
static bool is_key_entry(const struct as_dicts *in, uint32_t node)
{
    const struct as_edges *e = in->edges;
    uint32_t key = as_edge_of(e, node, 0), next = as_edge_of(e, node, KEY_NEXT);
    uint64_t address = as_index_address(in->proof->patterns->index, node) + AS_HEADER;
    return key != AS_NO_EDGE && !as_edge_begins(e, key) && (next == AS_NO_EDGE || !as_edge_begins(e, next)) &&
           as_proof_is_made_for(in->proof, address, KEY_BYTES);
}

// Since 8.2: the next one or its key, and the own key.
static bool is_late_entry(const struct as_dicts *in, uint32_t node)
{
    uint64_t address = as_index_address(in->proof->patterns->index, node) + AS_HEADER;
    return as_edge_of(in->edges, node, 1) != AS_NO_EDGE && as_proof_is_made_for(in->proof, address, KEY_BYTES);
}

struct key_walk {
    struct as_dicts *in;
    const struct as_dict *of;
    as_dict_each *entry, *key;
    void *context;
    uint64_t left; // entries and keys
};

// Follows an edge from a table to a key, or to entries. False: there are too many, or one is none.
static bool visit_bucket(struct key_walk *v, uint32_t from, uint32_t edge)
{
    const struct as_edges *e = v->in->edges;
    while (edge != AS_NO_EDGE) {
        uint32_t node = as_edge_to(e, from, edge);
        bool begins = as_edge_begins(e, edge);
        bool single = v->of->next_first ? !begins : !is_key_entry(v->in, node);
        if (v->left-- == 0 || v->in->steps == 0 || (begins && !(v->of->next_first && is_late_entry(v->in, node))))
            return false;
        v->in->steps--;
        edge = single ? AS_NO_EDGE : as_edge_of(e, node, v->of->next_first ? 0 : KEY_NEXT);
        from = node;
        as_dict_each *each = single ? v->key : v->entry;
        if (each)
            each(v->context, node);
    }
    return true;
}

static bool visit_keys(struct key_walk *v, uint32_t table)
{
    const struct as_edges *e = v->in->edges;
    AS_FOR_EDGES(e, table, i)
        if (!visit_bucket(v, table, i))
            return false;
    return v->left == 0;
}

bool as_dict_visit(struct as_dicts *d, const struct as_dict *of, as_dict_each *entry, as_dict_each *key, void *context)
{
    const struct as_chains chains = {.proof = d->proof,
                                     .edges = d->edges,
                                     .buckets = UINT64_MAX,
                                     .next = of->next_first ? 0 : NEXT,
                                     .end = AS_NO_NODE,
                                     .steps = &d->steps};
    for (int i = 0; i < AS_DICT_TABLES; i++) {
        struct key_walk v = {d, of, entry, key, context, of->used[i]};
        if (of->tables[i] != AS_NO_NODE &&
            !(of->keys ? visit_keys(&v, of->tables[i])
                       : as_chains_visit(&chains, of->tables[i], of->used[i], entry, context)))
            return false;
    }
    return true;
}

// Has a node pointers where a dict has them, and none where it has numbers?
static bool may_be_dict(const struct as_dicts *in, uint32_t node)
{
    const struct as_edges *e = in->edges;
    uint32_t table = as_edge_of(e, node, 1);
    if (table == AS_NO_EDGE || !as_edge_begins(e, table))
        return false;
    for (uint32_t i = as_edge_next(e, table); i < as_edges_end(e, node); i = as_edge_next(e, i))
        if (as_edge_place(e, i) > AS_DICT_TABLES && as_edge_place(e, i) < DICT_BYTES / WORD)
            return false;
    return true;
}

static bool has_entries(struct as_dicts *in, struct as_dict *d, bool next_first)
{
    d->next_first = next_first;
    d->keys = false;
    if (as_dict_visit(in, d, NULL, NULL, NULL))
        return true;
    d->keys = true;
    return as_dict_visit(in, d, NULL, NULL, NULL);
}

// `type`: of which it is not known whether it may be one.
static bool is_dict(struct as_dicts *in, const struct as_used_chunk *chunk, bool type, struct as_dict *d)
{
    struct as_target *t = in->proof->target;
    uint64_t w[DICT_BYTES / WORD];
    *d = (struct as_dict){.node = chunk->node};
    if (!as_target_read(t, chunk->address + AS_HEADER, w, sizeof w))
        return false;
    bool late = !accept_dict(in, d, w, ROOMS);
    if ((late && !accept_dict(in, d, w, LATE_ROOMS)) || (type && !may_be_type(t, w[0])))
        return false;
    if (!late && has_entries(in, d, false))
        return true;
    bool found = has_entries(in, d, true);
    in->modern = in->modern || found;
    return found;
}

static bool add_dict(struct as_dicts *in, const struct as_used_chunk *chunk, bool type)
{
    struct as_dict d, *added = NULL;
    if (in->list.count < MOST_DICTS && is_dict(in, chunk, type, &d) && (added = as_vec_add(&in->list, NULL)))
        *added = d;
    return added;
}

// Finds dicts among the chunks of a dict's size that begin with what may be a dict's type. types[i]: how many more of these are tried
// before the first is one.
static void find_by_type(struct as_dicts *in, uint8_t *types)
{
    for (struct as_used_cursor c = as_used_begin(in->proof->patterns->index); as_used_next(&c);) {
        uint32_t type = as_vtable_of(in->vtables, c.chunk.node);
        if (types[type] == 0 || c.chunk.size - WORD < DICT_BYTES || c.chunk.size > MOST_DICT ||
            !may_be_dict(in, c.chunk.node))
            continue;
        types[type]--;
        if (!add_dict(in, &c.chunk, false))
            continue;
        types[type] = MOST_TRIES;
        // Without RTTI, functions behind zeros resemble a vtable.
        in->vtables->list.items[type].proven = false;
    }
}

// The type is in the middle of another chunk.
static void find_by_chunk(struct as_dicts *in)
{
    struct as_used_cursor c = as_used_begin(in->proof->patterns->index);
    for (int left = MOST_READS; left > 0 && as_used_next(&c);) {
        uint32_t type = as_edge_of(in->edges, c.chunk.node, 0);
        if (type == AS_NO_EDGE || as_edge_begins(in->edges, type) || c.chunk.size - WORD < DICT_BYTES ||
            c.chunk.size > MOST_DICT || !may_be_dict(in, c.chunk.node))
            continue;
        left--;
        add_dict(in, &c.chunk, true);
    }
}

// Where no two keys share a bucket, a dict of 8.2 may resemble one of before. A process has dicts of one release.
static void find_late(struct as_dicts *in)
{
    for (size_t i = 0; i < in->list.count; i++) {
        struct as_dict late = in->list.items[i];
        if (!late.next_first && has_entries(in, &late, true))
            in->list.items[i] = late;
    }
}

void as_dicts_find(struct as_dicts *d, uint8_t *types)
{
    if (!find_types(d->vtables, d->proof->target, types))
        return;
    find_by_type(d, types);
    if (d->list.count > 0)
        find_by_chunk(d);
    if (d->modern)
        find_late(d);
}
