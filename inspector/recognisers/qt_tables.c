// SPDX-License-Identifier: MIT
#include "recognisers/qt_tables.h"
#include "recognisers/hash_chains.h"

#include <string.h>

enum {
    WORD = sizeof(uint64_t),
    // Qt 5's QHashData: no node, the buckets, references and size, bytes of a node and numbers of bits, buckets and seed, flags. The last
    // node of a chain leads back to it.
    HASH_BYTES = 48,
    BUCKETS = 1,
    HASH_SIZE = 2,
    NODE_SIZE = 3,
    BUCKET_COUNT = 4,
    LEAST_NODE = 16,
    MOST_NODE = 1 << 16,
    // Qt 5's QMapData: references and size, a node without a value (parent, left, right), the first node. A node's parent has a colour in
    // its lower bits.
    MAP_BYTES = 40,
    MAP_HEADER = 8,
    MAP_ROOT = 2,
    MAP_FIRST = 4,
    PARENT = 0,
    LEFT = 1,
    RIGHT = 2,
    COLOURS = 3,
    MOST_DEPTH = 64,
    // Qt 6's Data of a QHash: references, size, buckets, seed, spans. A span has a byte for each of its buckets, the entries, and how many
    // of them there are; before the first is how many spans there are.
    DATA_BYTES = 40,
    SPAN_BUCKETS = 128,
    SPAN_BYTES = SPAN_BUCKETS + 2 * WORD,
    NO_ENTRY = 0xff,
    COUNT_BYTES = WORD,
};

static void match_hash(struct as_qt *q, uint32_t node, const uint64_t w[HASH_BYTES / WORD])
{
    uint64_t size = w[HASH_SIZE] >> 32, bytes = (uint32_t)w[NODE_SIZE], buckets = (uint32_t)w[BUCKET_COUNT];
    if (w[0] != 0 || !as_qt_is_reference(w[HASH_SIZE]) || size == 0 || bytes < LEAST_NODE || bytes > MOST_NODE ||
        buckets == 0 || !as_proof_is_made_for(&q->proof, w[BUCKETS], buckets * WORD))
        return;
    uint32_t table = as_proof_node(&q->proof, w[BUCKETS]);
    const struct as_chains chains = {&q->proof, q->edges, buckets, 0, node, bytes, &q->steps};
    if (!as_chains_prove(&chains, table, size, AS_SHAPE_QT_NODE))
        return;
    as_proof_give(&q->proof, node, AS_SHAPE_QT_HASH);
    as_proof_give(&q->proof, table, AS_SHAPE_QT_TABLE);
}

// The node that the word of a node at `place` leads to, wherever in it.
static uint32_t leads(const struct as_qt *q, uint32_t node, uint32_t place)
{
    uint32_t edge = as_edge_of(q->edges, node, place);
    return edge != AS_NO_EDGE ? as_edge_to(q->edges, node, edge) : AS_NO_NODE;
}

// Goes through a tree by its nodes' own pointers, and counts. AS_UNKNOWN: a child does not lead back, or there are more than `most`.
static uint64_t visit_tree(struct as_qt *q, uint32_t root, uint64_t most, bool give)
{
    uint64_t found = 0;
    uint32_t node = root, last = leads(q, root, PARENT), top = last;
    for (unsigned depth = 1; node != top;) {
        uint32_t parent = leads(q, node, PARENT), left = as_edge_link(q->edges, node, LEFT),
                 right = as_edge_link(q->edges, node, RIGHT), next = parent;
        if (parent == AS_NO_NODE || q->steps == 0)
            return AS_UNKNOWN;
        q->steps--;
        if (last == parent) { // it is met for the first time
            if (depth > MOST_DEPTH || ++found > most)
                return AS_UNKNOWN;
            if (give)
                as_proof_give(&q->proof, node, AS_SHAPE_QT_MAP_NODE);
            next = left != AS_NO_NODE ? left : right != AS_NO_NODE ? right : parent;
        } else if (last == left && right != AS_NO_NODE) {
            next = right;
        }
        if (next != parent && leads(q, next, PARENT) != node)
            return AS_UNKNOWN;
        depth = next == parent ? depth - 1 : depth + 1;
        last = node;
        node = next;
    }
    return found;
}

// Does the tree's first node have no left child, and is it the leftmost?
static bool is_first(const struct as_qt *q, uint32_t root, uint32_t first)
{
    uint32_t node = root;
    for (unsigned depth = 0; depth < MOST_DEPTH && node != AS_NO_NODE; depth++) {
        if (node == first)
            return as_edge_link(q->edges, node, LEFT) == AS_NO_NODE;
        node = as_edge_link(q->edges, node, LEFT);
    }
    return false;
}

static void match_map(struct as_qt *q, uint32_t node, uint64_t address, const uint64_t w[MAP_BYTES / WORD])
{
    uint64_t size = w[0] >> 32, parent;
    if (!as_qt_is_reference(w[0]) || size == 0 || w[1] > COLOURS || w[3] != 0)
        return;
    uint32_t root = as_proof_node(&q->proof, w[MAP_ROOT]), first = as_proof_node(&q->proof, w[MAP_FIRST]);
    if (root == AS_NO_NODE || first == AS_NO_NODE || !is_first(q, root, first) ||
        !as_target_read_u64(q->proof.target, w[MAP_ROOT], &parent) ||
        (parent & ~(uint64_t)COLOURS) != address + MAP_HEADER || leads(q, root, PARENT) != node ||
        visit_tree(q, root, size, false) != size)
        return;
    q->steps += size * 2; // these have been counted
    visit_tree(q, root, size, true);
    as_proof_give(&q->proof, node, AS_SHAPE_QT_MAP);
}

void as_qt5_match_tables(struct as_qt *q, const struct as_used_chunk *chunk)
{
    uint64_t address = chunk->address + AS_HEADER, w[HASH_BYTES / WORD];
    bool hash = as_proof_is_made_for(&q->proof, address, HASH_BYTES);
    if (!hash && !as_proof_is_made_for(&q->proof, address, MAP_BYTES))
        return;
    const void *bytes = as_window_at(&q->window, address, hash ? HASH_BYTES : MAP_BYTES);
    if (!bytes)
        return;
    memcpy(w, bytes, hash ? HASH_BYTES : MAP_BYTES);
    if (hash && as_edge_link(q->edges, chunk->node, BUCKETS) != AS_NO_NODE)
        match_hash(q, chunk->node, w);
    else if (as_edge_link(q->edges, chunk->node, MAP_ROOT) != AS_NO_NODE)
        match_map(q, chunk->node, address, w);
}

// How many of a span's buckets are taken, each with another entry; AS_UNKNOWN: it is no span. *entries: the node of its entries.
static uint64_t count_span(const struct as_qt *q, const uint8_t span[SPAN_BYTES], uint32_t *entries)
{
    uint64_t pointer, found = 0, seen[SPAN_BUCKETS / 64] = {0};
    uint8_t room = span[SPAN_BUCKETS + WORD];
    memcpy(&pointer, span + SPAN_BUCKETS, sizeof pointer);
    *entries = pointer != 0 ? as_proof_node(&q->proof, pointer) : AS_NO_NODE;
    if ((*entries == AS_NO_NODE) != (room == 0) || (pointer != 0 && *entries == AS_NO_NODE))
        return AS_UNKNOWN;
    for (unsigned i = 0; i < SPAN_BUCKETS; i++) {
        uint8_t entry = span[i];
        if (entry == NO_ENTRY)
            continue;
        if (entry >= room || entry >= SPAN_BUCKETS || seen[entry / 64] >> entry % 64 & 1)
            return AS_UNKNOWN;
        seen[entry / 64] |= UINT64_C(1) << entry % 64;
        found++;
    }
    return found;
}

// Counts all entries; AS_UNKNOWN: these are no spans.
static uint64_t visit_spans(struct as_qt *q, uint64_t spans, uint64_t count, bool give)
{
    uint64_t found = 0;
    uint8_t span[SPAN_BYTES];
    uint32_t entries;
    if (count * SPAN_BYTES > q->proof.room)
        return AS_UNKNOWN;
    q->proof.room -= count * SPAN_BYTES;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t here = as_target_read(q->proof.target, spans + i * SPAN_BYTES, span, sizeof span)
                            ? count_span(q, span, &entries)
                            : AS_UNKNOWN;
        if (here == AS_UNKNOWN)
            return AS_UNKNOWN;
        found += here;
        if (give && entries != AS_NO_NODE)
            as_proof_give(&q->proof, entries, AS_SHAPE_QT_NODE);
    }
    return found;
}

void as_qt6_match_table(struct as_qt *q, const struct as_used_chunk *chunk)
{
    uint64_t address = chunk->address + AS_HEADER, w[DATA_BYTES / WORD], count;
    const void *bytes = as_proof_is_made_for(&q->proof, address, DATA_BYTES) && leads(q, chunk->node, 4) != AS_NO_NODE
                            ? as_window_at(&q->window, address, DATA_BYTES)
                            : NULL;
    if (!bytes)
        return;
    memcpy(w, bytes, sizeof w);
    uint64_t size = w[1], buckets = w[2], spans = w[4], of_count = spans - COUNT_BYTES;
    if (!as_qt_is_reference(w[0]) || size == 0 || size > buckets || buckets > UINT32_MAX || buckets < SPAN_BUCKETS ||
        (buckets & (buckets - 1)) != 0 || !as_target_read_u64(q->proof.target, of_count, &count) ||
        count != buckets / SPAN_BUCKETS ||
        !as_proof_is_made_for(&q->proof, of_count, COUNT_BYTES + count * SPAN_BYTES) ||
        visit_spans(q, spans, count, false) != size)
        return;
    visit_spans(q, spans, count, true);
    as_proof_give(&q->proof, chunk->node, AS_SHAPE_QT_HASH);
    as_proof_give(&q->proof, as_proof_node(&q->proof, of_count), AS_SHAPE_QT_TABLE);
}
