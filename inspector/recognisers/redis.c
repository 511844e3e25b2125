// SPDX-License-Identifier: MIT
#include "recognisers/redis.h"
#include "base/memory.h"
#include "graph/shapes.h"
#include "recognisers/redis_dicts.h"
#include "recognisers/valkey.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    POINTER = 1,          // word of an object
    MOST_PASSES = 8,      // over the whole graph, with what resembles a dict
    LEAST_VALUES = 8,     // of a dict: fewer may resemble objects or short strings by chance
    WINDOW = 1 << 20,     // bytes read at a time
    MOST_KNOWN = 1 << 16, // bytes of a chunk that are inspected
};
#define AS_INSIDE ((uint16_t)(1 << 7)) // of a node's snapshots: a pointer leads into its middle

struct redis {
    struct as_proof proof;
    struct as_shaping graph; // only for its edges
    uint16_t *match_bits;    // of each node
    struct as_dicts dicts;
    struct as_hashtables hashtables;
    bool intsets;               // some chunk resembles one
    const struct as_dict *dict; // that is inspected
    // These count the values of one dict, its keys if they have them, or the entries of one hash table.
    uint64_t values, objects, strings, sure, fields, nodes;
    bool keys; // that are keys alone
};

// What is proven of a chunk says more than words beside a pointer to it, which may be left over: they give no type then.
static void give(const struct redis *r, uint32_t node, enum as_shape shape)
{
    r->proof.patterns->of_node[node] = AS_PATTERN_NONE;
    as_proof_give(&r->proof, node, shape);
}

static void find_insides(struct redis *r)
{
    const struct as_edges *e = r->graph.edges;
    for (uint32_t node = 0; node < e->nodes; node++)
        AS_FOR_EDGES(e, node, i)
            if (!as_edge_begins(e, i))
                r->match_bits[as_edge_to(e, node, i)] = AS_INSIDE;
}

// Reads the chunks one after the other, many at a time.
static void match_all(struct redis *r, uint8_t *window)
{
    uint64_t start = 0, known = 0; // what is in the window
    for (struct as_used_cursor c = as_used_begin(r->proof.patterns->index); as_used_next(&c);) {
        uint64_t memory = c.chunk.address + AS_HEADER, usable = c.chunk.size - WORD;
        uint64_t wanted = usable < MOST_KNOWN ? usable : MOST_KNOWN;
        if (memory < start || memory + wanted > start + known) {
            start = memory;
            known = as_target_read_resident(r->proof.target, start, window, WINDOW);
        }
        uint64_t here = known > memory - start ? known - (memory - start) : 0;
        r->match_bits[c.chunk.node] |= (uint16_t)as_redis_match(
            r->proof.target, memory, usable, window + (memory - start), here < wanted ? here : wanted, r->dicts.modern);
        r->intsets = r->intsets || r->match_bits[c.chunk.node] & AS_REDIS_INTSET;
    }
}

static bool is_string(const struct redis *r, uint32_t node)
{
    return r->match_bits[node] & AS_INSIDE && r->match_bits[node] & (AS_SDS_LONG | AS_SDS_SHORT);
}

// Does an object lead to a string of its own?
static bool has_string(const struct redis *r, uint32_t node)
{
    uint32_t edge = as_edge_of(r->graph.edges, node, POINTER);
    const struct as_edges *e = r->graph.edges;
    return edge != AS_NO_EDGE && !as_edge_begins(e, edge) && is_string(r, as_edge_to(e, node, edge));
}

// `edge`: of the entry.
static void count_value(struct redis *r, uint32_t entry, uint32_t edge)
{
    uint32_t value = as_edge_to(r->graph.edges, entry, edge);
    r->values++;
    if (as_edge_begins(r->graph.edges, edge)) {
        r->objects += (r->match_bits[value] & (AS_REDIS_OBJECT | AS_REDIS_TEXT | AS_REDIS_SHARED)) != 0;
        r->sure += r->match_bits[value] & AS_REDIS_TEXT || (r->sure == 0 && has_string(r, value));
    } else {
        r->strings += is_string(r, value);
        r->sure += (r->match_bits[value] & AS_SDS_LONG) != 0;
    }
}

static void name_key(void *redis, uint32_t key)
{
    const struct redis *r = redis;
    if (is_string(r, key))
        give(r, key, AS_SHAPE_SDS);
}

static void name_key_entry(void *redis, uint32_t entry)
{
    const struct redis *r = redis;
    uint32_t key = as_edge_of(r->graph.edges, entry, as_dict_key(r->dict));
    give(r, entry, AS_SHAPE_REDIS_ENTRY);
    if (key != AS_NO_EDGE && !as_edge_begins(r->graph.edges, key))
        name_key(redis, as_edge_to(r->graph.edges, entry, key));
}

// The entry and its key have a name then.
static void take_entry(void *redis, uint32_t entry)
{
    struct redis *r = redis;
    uint32_t value = as_edge_of(r->graph.edges, entry, as_dict_value(r->dict));
    name_key_entry(redis, entry);
    if (value != AS_NO_EDGE)
        count_value(r, entry, value);
}

// To which an object leads.
static void name_intset(const struct redis *r, uint32_t object)
{
    uint32_t contents = r->intsets ? as_shape_link(&r->graph, object, POINTER) : AS_NO_NODE;
    if (contents != AS_NO_NODE && r->match_bits[contents] & AS_REDIS_INTSET)
        give(r, contents, AS_SHAPE_INTSET);
}

static void name_value(void *redis, uint32_t entry)
{
    struct redis *r = redis;
    uint32_t edge = as_edge_of(r->graph.edges, entry, as_dict_value(r->dict));
    if (edge == AS_NO_EDGE)
        return;
    uint32_t value = as_edge_to(r->graph.edges, entry, edge);
    if (r->match_bits[value] & AS_REDIS_TEXT)
        return;
    give(r, value, r->strings > 0 ? AS_SHAPE_SDS : AS_SHAPE_REDIS_OBJECT);
    if (r->strings == 0)
        name_intset(r, value);
}

// What an object with its key leads to: a string, or a set's numbers.
static void name_contents(const struct redis *r, uint32_t object)
{
    unsigned match_bits = r->match_bits[object];
    uint32_t edge = as_edge_of(r->graph.edges, object, (match_bits >> AS_REDIS_BEFORE) + POINTER);
    if (edge == AS_NO_EDGE)
        return;
    uint32_t contents = as_edge_to(r->graph.edges, object, edge);
    bool begins = as_edge_begins(r->graph.edges, edge);
    if (match_bits & AS_REDIS_RAW && !begins && is_string(r, contents))
        give(r, contents, AS_SHAPE_SDS);
    else if (match_bits & AS_REDIS_NUMBERS && begins && r->match_bits[contents] & AS_REDIS_INTSET)
        give(r, contents, AS_SHAPE_INTSET);
}

static void count_late_key(void *redis, uint32_t key)
{
    struct redis *r = redis;
    unsigned match_bits = r->match_bits[key];
    bool field = match_bits & AS_REDIS_FIELD && match_bits & AS_INSIDE;
    r->values++;
    r->objects += (match_bits & AS_REDIS_KEYED) != 0;
    r->nodes += (match_bits & AS_REDIS_NODE) != 0;
    r->fields += field;
    r->strings += is_string(r, key);
    r->sure += field && !is_string(r, key);
}

static enum as_shape late_shape(const struct redis *r)
{
    if (r->objects == r->values)
        return AS_SHAPE_REDIS_KEYED;
    if (r->nodes == r->values)
        return AS_SHAPE_LIST_NODE;
    // A short string may have what resembles a value in the rest of its chunk.
    if (r->fields == r->values)
        return r->sure > 0 || r->values >= LEAST_VALUES ? AS_SHAPE_REDIS_FIELD : AS_SHAPE_NONE;
    return r->strings == r->values ? AS_SHAPE_SDS : AS_SHAPE_NONE;
}

static void name_late_key(void *redis, uint32_t key)
{
    const struct redis *r = redis;
    enum as_shape shape = late_shape(r);
    if (shape == AS_SHAPE_NONE)
        return;
    give(r, key, shape);
    if (shape == AS_SHAPE_REDIS_KEYED)
        name_contents(r, key);
}

static void of_late_entry(const struct redis *r, uint32_t entry, as_dict_each *each, void *redis)
{
    uint32_t key = as_edge_of(r->graph.edges, entry, as_dict_key(r->dict));
    if (key != AS_NO_EDGE)
        each(redis, as_edge_to(r->graph.edges, entry, key));
}

static void count_late_entry(void *redis, uint32_t entry)
{
    of_late_entry(redis, entry, count_late_key, redis);
}

static void name_late_entry(void *redis, uint32_t entry)
{
    give(redis, entry, AS_SHAPE_REDIS_ENTRY);
    of_late_entry(redis, entry, name_late_key, redis);
}

static void forget_counts(struct redis *r)
{
    r->values = r->objects = r->strings = r->sure = r->fields = r->nodes = 0;
}

// Names the keys of redis 8.2 and later, which are more than strings. Where all of them are in entries, only they say that the dict has no
// values.
static bool name_late_keys(struct redis *r)
{
    forget_counts(r);
    as_dict_visit(&r->dicts, r->dict, count_late_entry, count_late_key, r);
    enum as_shape shape = late_shape(r);
    if (r->values == 0 || (!r->dict->keys && (shape == AS_SHAPE_NONE || shape == AS_SHAPE_SDS)))
        return false;
    as_dict_visit(&r->dicts, r->dict, name_late_entry, name_late_key, r);
    return true;
}

static void name_dict(struct redis *r, const struct as_dict *d)
{
    r->dict = d;
    give(r, d->node, AS_SHAPE_REDIS_DICT);
    for (int k = 0; k < AS_DICT_TABLES; k++)
        if (d->tables[k] != AS_NO_NODE)
            give(r, d->tables[k], AS_SHAPE_REDIS_TABLE);
    if (d->next_first && name_late_keys(r))
        return;
    forget_counts(r);
    as_dict_visit(&r->dicts, d, d->keys ? name_key_entry : take_entry, name_key, r);
    // All of one kind, and some that nothing else can be, or many.
    if ((r->objects == r->values || r->strings == r->values) && (r->sure > 0 || r->values >= LEAST_VALUES))
        as_dict_visit(&r->dicts, d, name_value, NULL, r);
}

static bool begins_node(const struct redis *r, uint32_t node, uint64_t word)
{
    return as_index_address(r->proof.patterns->index, node) + AS_HEADER == word;
}

static void count_entry(void *redis, uint32_t node, uint64_t word)
{
    struct redis *r = redis;
    r->values += begins_node(r, node, word);
    r->objects += begins_node(r, node, word) && r->match_bits[node] & AS_VALKEY_OBJECT;
}

// An entry of a hash is a string, its key, and behind it the value (since 9.0).
static bool has_text(const struct redis *r, uint32_t node, uint64_t word)
{
    uint8_t kind, end;
    uint64_t length = 0, start = as_index_address(r->proof.patterns->index, node) + AS_HEADER;
    if (!as_target_read(r->proof.target, word - 1, &kind, 1) || (kind & 7) > 1)
        return false;
    if ((kind & 7) == 0)
        length = kind >> 3;
    else if (word - start < 3 || !as_target_read(r->proof.target, word - 3, &length, 1))
        return false;
    bool inside = false;
    return as_index_pointer(r->proof.patterns->index, word + length, &inside) == node &&
           as_target_read(r->proof.target, word + length, &end, 1) && end == 0;
}

static void name_entry(void *redis, uint32_t node, uint64_t word)
{
    struct redis *r = redis;
    if (begins_node(r, node, word)) {
        if (r->objects < r->values)
            return;
        give(r, node, AS_SHAPE_REDIS_KEYED);
        name_intset(r, node);
    } else if (r->keys ? is_string(r, node) : has_text(r, node, word)) {
        give(r, node, r->keys ? AS_SHAPE_SDS : AS_SHAPE_REDIS_FIELD);
    }
}

static void name_child(void *redis, uint32_t node, uint64_t word)
{
    (void)word;
    give(redis, node, AS_SHAPE_VALKEY_BUCKETS);
}

static void name_hashtable(struct redis *r, const struct as_hashtable *h)
{
    give(r, h->node, AS_SHAPE_VALKEY_HASHTABLE);
    for (int k = 0; k < AS_HASHTABLE_TABLES; k++)
        if (h->tables[k] != AS_NO_NODE)
            give(r, h->tables[k], AS_SHAPE_VALKEY_BUCKETS);
    forget_counts(r);
    r->keys = h->keys;
    if (as_hashtable_visit(&r->hashtables, h, count_entry, name_child, r))
        as_hashtable_visit(&r->hashtables, h, name_entry, NULL, r);
}

// What its own bytes prove.
static void name_alone(struct redis *r)
{
    static const struct {
        uint16_t match_bits;
        enum as_shape shape;
    } names[] = {
        {AS_SDS_LONG | AS_INSIDE, AS_SHAPE_SDS},
        {AS_REDIS_TEXT, AS_SHAPE_REDIS_TEXT},
        {AS_REDIS_SHARED, AS_SHAPE_REDIS_OBJECT},
        {AS_REDIS_LISTPACK, AS_SHAPE_LISTPACK},
    };
    for (uint32_t node = 0; node < r->graph.edges->nodes; node++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if ((r->match_bits[node] & names[i].match_bits) == names[i].match_bits &&
                (names[i].match_bits != AS_REDIS_SHARED || !(r->match_bits[node] & AS_REDIS_RAW) ||
                 has_string(r, node)))
                give(r, node, names[i].shape);
}

static size_t matches_bytes(const struct redis *r)
{
    return ((size_t)r->graph.edges->nodes + 1) * sizeof *r->match_bits;
}

static void prove_nodes(struct redis *r, uint8_t *types)
{
    as_dicts_find(&r->dicts, types);
    if (r->dicts.list.count == 0) // as in nearly all processes
        return;
    r->match_bits = as_memory_map(matches_bytes(r), "the chunks of redis", NULL);
    uint8_t *window = r->match_bits ? as_memory_map(WINDOW, "the chunks of redis", NULL) : NULL;
    if (!window)
        return;
    find_insides(r);
    match_all(r, window);
    as_memory_unmap(window, WINDOW);
    name_alone(r);
    as_hashtables_find(&r->hashtables);
    r->dicts.steps = r->hashtables.steps = UINT64_MAX; // these have been counted
    for (size_t i = 0; i < r->hashtables.list.count; i++)
        name_hashtable(r, &r->hashtables.list.items[i]);
    for (size_t i = 0; i < r->dicts.list.count; i++)
        name_dict(r, &r->dicts.list.items[i]);
}

bool as_redis_find(const struct as_recogniser_input *in)
{
    struct redis r = {.proof = {.patterns = in->patterns, .target = in->target}, .graph.edges = in->edges};
    uint64_t steps = MOST_PASSES * (in->edges->pointers + in->edges->nodes);
    r.dicts = (struct as_dicts){&r.proof, in->edges, in->vtables, .steps = steps};
    r.hashtables = (struct as_hashtables){&r.proof, in->edges, in->vtables, .steps = steps};
    uint8_t *types = as_memory_map(in->vtables->list.count, "types of dicts", NULL);
    if (types)
        prove_nodes(&r, types);
    as_memory_unmap(types, in->vtables->list.count);
    as_memory_unmap(r.match_bits, matches_bytes(&r));
    as_vec_free(&r.dicts.list);
    as_vec_free(&r.hashtables.list);
    return true;
}
