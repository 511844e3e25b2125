// SPDX-License-Identifier: MIT
// CPython's own hash tables, above all those of the module tracemalloc: for each block that Python allocates there are an entry and a
// trace, and blocks with the same stack share a traceback.
#include "recognisers/hash_chains.h"
#include "recognisers/libraries.h"
#include "runtimes/cpython_hashtable.h"
#include "target/window.h"

enum {
    NEXT = 0, // word of an entry
    VALUE = 3,
    TRACEBACK = 1, // word of a trace
    BUCKETS = 2,   // word of a table
    MOST_PASSES = 8,
    MOST_READS = 1 << 16,
};

struct tables {
    struct as_proof proof;
    const struct as_edges *edges;
    struct as_window window;
    uint64_t steps;     // that are left
    int64_t reads_left; // for first entries
};

// All is proven by a table's count of its entries: the words around a pointer to one of them may resemble an array's by chance.
static void give(const struct tables *s, uint32_t node, enum as_shape shape)
{
    as_pattern_note(s->proof.patterns, node, AS_PATTERN_NONE);
    as_proof_give(&s->proof, node, shape);
}

static uint32_t node_made_for(const struct tables *s, uint32_t node, uint64_t bytes)
{
    uint64_t address = node == AS_NO_NODE ? 0 : as_index_address(s->proof.patterns->index, node) + AS_HEADER;
    return node != AS_NO_NODE && as_proof_is_made_for(&s->proof, address, bytes) ? node : AS_NO_NODE;
}

// The value of an entry: a trace, which leads to a traceback. Tracebacks without frames are no chunks.
static void name_trace(void *context, uint32_t entry)
{
    const struct tables *s = context;
    uint32_t trace = node_made_for(s, as_edge_link(s->edges, entry, VALUE), sizeof(struct as_py_trace));
    if (trace == AS_NO_NODE)
        return;
    give(s, trace, AS_SHAPE_PY_TRACE);
    uint32_t traceback = as_edge_link(s->edges, trace, TRACEBACK);
    if (traceback != AS_NO_NODE)
        give(s, traceback, AS_SHAPE_PY_TRACEBACK);
}

static void match_table(struct tables *s, const struct as_used_chunk *chunk)
{
    const void *words = as_window_at(&s->window, chunk->address + AS_HEADER, sizeof(struct as_py_hashtable));
    if (!words)
        return;
    const struct as_py_hashtable h = *(const struct as_py_hashtable *)words;
    if (!as_py_is_hashtable(s->proof.target, &h) || !as_proof_is_made_for(&s->proof, h.first, h.buckets * AS_PY_BUCKET))
        return;
    uint32_t buckets = as_proof_node(&s->proof, h.first);
    const struct as_chains chains = {.proof = &s->proof,
                                     .edges = s->edges,
                                     .buckets = h.buckets,
                                     .next = NEXT,
                                     .end = AS_NO_NODE,
                                     .bytes = sizeof(struct as_py_hashtable_entry),
                                     .steps = &s->steps};
    if (!as_chains_prove(&chains, buckets, h.entries, AS_SHAPE_PY_ENTRY))
        return;
    give(s, chunk->node, AS_SHAPE_PY_HASHTABLE);
    give(s, buckets, AS_SHAPE_PY_BUCKETS);
    if (as_py_has_traces(s->proof.target, &h, &s->reads_left))
        as_chains_visit(&chains, buckets, h.entries, name_trace, s);
}

bool as_cpython_tables_find(const struct as_recogniser_input *in)
{
    struct tables s = {.proof = {.patterns = in->patterns, .target = in->target, .room = AS_PROOF_BYTES},
                       .edges = in->edges,
                       .reads_left = MOST_READS,
                       .steps = MOST_PASSES * (in->edges->pointers + in->edges->nodes)};
    if (!as_window_open(&s.window, in->target, NULL))
        return true;
    // A table's words are numbers and functions, but for the one that leads to its buckets.
    for (struct as_used_cursor c = as_used_begin(in->patterns->index); as_used_next(&c);)
        if (as_edge_link(in->edges, c.chunk.node, 0) == AS_NO_NODE &&
            as_edge_link(in->edges, c.chunk.node, BUCKETS) != AS_NO_NODE &&
            node_made_for(&s, c.chunk.node, sizeof(struct as_py_hashtable)) != AS_NO_NODE)
            match_table(&s, &c.chunk);
    as_window_close(&s.window);
    return true;
}
