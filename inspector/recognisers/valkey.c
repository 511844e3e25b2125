// SPDX-License-Identifier: MIT
#include "recognisers/valkey.h"

enum {
    WORD = sizeof(uint64_t),
    FUNCTIONS = 5, // that a type begins with: the key of an entry, hash, comparison, two more
    HASH = 1,
    HEAD =
        9, // words: type, what is moved, two tables, how many entries each has, numbers of bits, how many children each has
    TABLE = 2,
    USED = 4,
    ROOMS = 6,
    CHILDREN = 7,
    MOST_BYTES = 512, // of its chunk, with what may be behind
    BUCKET_WORDS = 8,
    BUCKET = BUCKET_WORDS * WORD,
    PLACES = 7, // of a bucket
    CHAINED = 1,
    AT_ONCE = 32, // buckets read
    MOST_ROOM = 40,
    MOST_TABLES = 1 << 18,
};
#define NO_ROOM 0xff // of a table that is not there: -1

struct bucket_walk {
    struct as_hashtables *in;
    as_hashtable_each *entry, *child;
    void *context;
    uint64_t entries, children; // that are left
};

// *keys: no function gives the key of an entry.
static bool may_be_type(struct as_target *t, uint64_t word, bool *keys)
{
    uint64_t w[FUNCTIONS];
    if (!as_target_read(t, word, w, sizeof w) || !as_target_is_code(t, w[HASH]))
        return false;
    for (int i = 0; i < FUNCTIONS; i++)
        if (!as_target_is_code(t, w[i]) && w[i] != 0)
            return false;
    *keys = w[0] == 0;
    return true;
}

static bool accept_hashtable(const struct as_hashtables *in, struct as_hashtable *h, const uint64_t w[HEAD])
{
    for (int i = 0; i < AS_HASHTABLE_TABLES; i++) {
        uint64_t room = w[ROOMS] >> (8 * i) & 0xff, table = w[TABLE + i];
        h->used[i] = w[USED + i];
        h->children[i] = w[CHILDREN + i];
        h->tables[i] = room == NO_ROOM ? AS_NO_NODE : as_proof_node(in->proof, table);
        if (room == NO_ROOM ? table != 0 || h->used[i] != 0 || h->children[i] != 0
                            : room > MOST_ROOM || h->used[i] > in->edges->nodes || h->children[i] > h->used[i] ||
                                  !as_proof_is_made_for(in->proof, table, (uint64_t)BUCKET << room))
            return false;
        h->buckets[i] = room == NO_ROOM ? 0 : UINT64_C(1) << room;
    }
    bool moves = w[1] != UINT64_MAX;
    return h->tables[0] != AS_NO_NODE && moves == (h->tables[1] != AS_NO_NODE) && h->used[0] + h->used[1] > 0;
}

static bool visit_entries(struct bucket_walk *v, const uint64_t *bucket)
{
    const struct as_index *x = v->in->proof->patterns->index;
    unsigned taken = (unsigned)(bucket[0] & 0xff) >> 1;
    for (unsigned i = 0; i < PLACES; i++) {
        bool begins;
        if ((taken >> i & 1) == 0)
            continue;
        uint32_t node = as_index_pointer(x, bucket[1 + i], &begins);
        if (v->entries-- == 0 || node == AS_NO_NODE)
            return false;
        if (v->entry)
            v->entry(v->context, node, bucket[1 + i]);
    }
    return true;
}

// A bucket, and its children one after the other.
static bool visit_bucket(struct bucket_walk *v, const uint64_t *bucket)
{
    uint64_t child[BUCKET_WORDS];
    for (;;) {
        if (v->in->steps == 0 || !visit_entries(v, bucket))
            return false;
        v->in->steps--;
        if ((bucket[0] & CHAINED) == 0)
            return true;
        uint64_t next = bucket[PLACES];
        if (bucket[0] >> PLACES & 1 || v->children-- == 0 || !as_proof_is_made_for(v->in->proof, next, BUCKET) ||
            !as_target_read(v->in->proof->target, next, child, sizeof child))
            return false;
        if (v->child)
            v->child(v->context, as_proof_node(v->in->proof, next), next);
        bucket = child;
    }
}

static bool visit_table(struct bucket_walk *v, uint32_t table, uint64_t buckets)
{
    uint64_t some[AT_ONCE * BUCKET_WORDS];
    uint64_t address = as_index_address(v->in->proof->patterns->index, table) + AS_HEADER;
    for (uint64_t at = 0; at < buckets; at += AT_ONCE) {
        uint64_t count = buckets - at < AT_ONCE ? buckets - at : AT_ONCE;
        if (!as_target_read(v->in->proof->target, address + at * BUCKET, some, (size_t)(count * BUCKET)))
            return false;
        for (uint64_t i = 0; i < count; i++)
            if (!visit_bucket(v, some + i * BUCKET_WORDS))
                return false;
    }
    return v->entries == 0 && v->children == 0;
}

bool as_hashtable_visit(struct as_hashtables *h, const struct as_hashtable *of, as_hashtable_each *entry,
                        as_hashtable_each *child, void *context)
{
    for (int i = 0; i < AS_HASHTABLE_TABLES; i++) {
        struct bucket_walk v = {h, entry, child, context, of->used[i], of->children[i]};
        if (of->tables[i] != AS_NO_NODE && !visit_table(&v, of->tables[i], of->buckets[i]))
            return false;
    }
    return true;
}

// Has a node pointers where a hash table has them, and none where it has numbers?
static bool may_be_hashtable(const struct as_edges *e, uint32_t node)
{
    uint32_t table = as_edge_of(e, node, TABLE);
    if (table == AS_NO_EDGE || !as_edge_begins(e, table))
        return false;
    AS_FOR_EDGES(e, node, i)
        if (as_edge_place(e, i) < HEAD && as_edge_place(e, i) != TABLE && as_edge_place(e, i) != TABLE + 1)
            return false;
    return true;
}

static bool is_hashtable(struct as_hashtables *in, const struct as_used_chunk *chunk, struct as_hashtable *h)
{
    struct as_target *t = in->proof->target;
    uint64_t w[HEAD];
    *h = (struct as_hashtable){.node = chunk->node};
    return as_target_read(t, chunk->address + AS_HEADER, w, sizeof w) && accept_hashtable(in, h, w) &&
           may_be_type(t, w[0], &h->keys) && as_hashtable_visit(in, h, NULL, NULL, NULL);
}

void as_hashtables_find(struct as_hashtables *h)
{
    struct as_hashtable found;
    for (struct as_used_cursor c = as_used_begin(h->proof->patterns->index);
         h->list.count < MOST_TABLES && as_used_next(&c);) {
        uint32_t type = as_vtable_of(h->vtables, c.chunk.node);
        if (type == 0 || h->vtables->list.items[type].name != 0 || c.chunk.size - WORD < HEAD * WORD ||
            c.chunk.size > MOST_BYTES || !may_be_hashtable(h->edges, c.chunk.node) ||
            !is_hashtable(h, &c.chunk, &found))
            continue;
        if (!as_vec_push(&h->list, NULL, found))
            return;
        // Without RTTI, functions behind zeros resemble a vtable.
        h->vtables->list.items[type].proven = false;
    }
}
