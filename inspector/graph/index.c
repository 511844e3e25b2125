// SPDX-License-Identifier: MIT
#include "graph/index.h"
#include "base/memory.h"
#include "base/sort.h"

// Heaps that are farther apart than this are in two clusters: a cluster's table has 4 bytes for each 64 KiB.
static const uint64_t FAR = UINT64_C(1) << 36;
static const uint64_t LEAF = UINT64_C(1) << AS_LEAF_SHIFT;

static uint64_t plain(uint64_t boundary)
{
    return boundary & ~(uint64_t)(AS_LATE - 1);
}

// The heaps among the boundaries.
static bool find_extents(struct as_index *x, const uint64_t *boundaries, size_t count, struct as_error *err)
{
    AS_VEC(uint64_t) starts = {0};
    AS_VEC(uint64_t) ends = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        if (!(boundaries[i] & AS_HEAP_BEGINS))
            continue;
        size_t last = i;
        while (last + 1 < count && !(boundaries[last + 1] & AS_HEAP_BEGINS))
            last++;
        if (last == i || plain(boundaries[last]) <= plain(boundaries[i + 1]))
            continue; // a heap without a chunk in use
        ok = as_vec_push(&starts, err, plain(boundaries[i + 1])) && as_vec_push(&ends, err, plain(boundaries[last]));
    }
    // No two heaps overlap, so the n-th start belongs to the n-th end.
    ok = ok && as_sort_u64(starts.items, starts.count, err) && as_sort_u64(ends.items, ends.count, err) &&
         as_vec_reserve(&x->extents, starts.count, err);
    for (size_t i = 0; ok && i < starts.count; i++)
        x->extents.items[x->extents.count++] = (struct as_extent){starts.items[i], ends.items[i]};
    as_vec_free(&starts);
    as_vec_free(&ends);
    return ok;
}

// Makes the clusters, still without leaves.
static bool find_clusters(struct as_index *x, struct as_error *err)
{
    for (size_t i = 0; i < x->extents.count; i++) {
        uint64_t start = as_align_down(x->extents.items[i].start, LEAF);
        uint64_t end = as_align_down(x->extents.items[i].end, LEAF) + LEAF; // at the end, a gap begins
        struct as_cluster *last = x->clusters.count > 0 ? &x->clusters.items[x->clusters.count - 1] : NULL;
        if (last && start - last->start < last->size + FAR) {
            last->size = end - last->start > last->size ? end - last->start : last->size;
            continue;
        }
        if (!as_vec_push(&x->clusters, err, (struct as_cluster){.start = start, .size = end - start}))
            return false;
    }
    AS_FOR_EACH(struct as_cluster, c, &x->clusters) {
        c->leaves =
            as_memory_map((size_t)(c->size >> AS_LEAF_SHIFT) * sizeof *c->leaves, "the index of the heaps", err);
        if (!c->leaves)
            return false;
    }
    if (x->clusters.count > 0) {
        const struct as_cluster *last = &x->clusters.items[x->clusters.count - 1];
        x->low = x->clusters.items[0].start;
        x->size = last->start + last->size - x->low;
    }
    return true;
}

// Is the heap memory that is one node?
static bool is_one_node(const struct as_index *x, const struct as_extent *e)
{
    size_t behind = AS_PARTITION_POINT(0, x->mapped.count, i, x->mapped.items[i].begin <= e->start);
    return behind > 0 && x->mapped.items[behind - 1].begin == e->start;
}

static bool add_leaf(struct as_index *x, struct as_error *err)
{
    struct as_leaf *leaf = as_vec_add(&x->leaves, err);
    return leaf;
}

// Gives each 64 KiB that a heap touches its leaf. In the middle of a single node no node begins: one leaf serves all of it.
static bool add_leaves(struct as_index *x, struct as_error *err)
{
    size_t cluster = 0;
    if (!add_leaf(x, err)) // [0]
        return false;
    AS_FOR_EACH(const struct as_extent, e, &x->extents) {
        while (e->start - x->clusters.items[cluster].start >= x->clusters.items[cluster].size)
            cluster++;
        struct as_cluster *c = &x->clusters.items[cluster];
        uint64_t first = (e->start - c->start) >> AS_LEAF_SHIFT, last = (e->end - c->start) >> AS_LEAF_SHIFT;
        bool one = is_one_node(x, e);
        for (uint64_t k = first; k <= last; k++) {
            bool same = one && k > first + 1 && k < last;
            if (c->leaves[k] != 0)
                continue;
            if (!same && !add_leaf(x, err))
                return false;
            c->leaves[k] = same ? c->leaves[k - 1] : (uint32_t)(x->leaves.count - 1);
        }
    }
    return true;
}

// The boundaries of a heap follow each other, and many lie in one word. *any_late: some begin in the middle of 16 bytes.
static void set_starts(struct as_index *x, const uint64_t *boundaries, size_t count, bool *any_late)
{
    struct as_leaf_word *word = NULL;
    uint64_t its_word = UINT64_MAX, tags = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t address = plain(boundaries[i]);
        if (address >> AS_WORD_SHIFT != its_word) {
            its_word = address >> AS_WORD_SHIFT;
            word = (struct as_leaf_word *)as_index_word(x, address);
        }
        if (!word || (boundaries[i] & AS_HEAP_BEGINS))
            continue;
        word->starts |= UINT64_C(1) << (address >> AS_UNIT_SHIFT & 63);
        tags |= boundaries[i];
        if (!(boundaries[i] & AS_GAP) && i + 1 < count) { // behind the last chunk of a heap is a gap
            x->chunks++;
            x->chunk_bytes += plain(boundaries[i + 1]) - address;
        }
    }
    *any_late = tags & AS_LATE;
}

static bool number_nodes(struct as_index *x, struct as_error *err)
{
    uint64_t count = 0;
    AS_FOR_EACH(const struct as_cluster, c, &x->clusters) {
        for (uint64_t k = 0; k < c->size >> AS_LEAF_SHIFT; k++) {
            struct as_leaf *leaf = c->leaves[k] != 0 ? &x->leaves.items[c->leaves[k]] : NULL;
            for (int w = 0; leaf && w < AS_LEAF_WORDS; w++) {
                leaf->words[w].before = (uint32_t)count;
                count += as_count_bits(leaf->words[w].starts);
            }
        }
    }
    if (count >= AS_MOST_NODES)
        return as_fail(err, AS_NO_MEMORY, "%llu chunks are more than the graph can have (a billion)",
                       (unsigned long long)count);
    x->count = (uint32_t)count;
    return true;
}

static bool mark_late(struct as_index *x, const uint64_t *boundaries, size_t count, struct as_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct as_leaf_word *word = boundaries[i] & AS_LATE ? as_index_word(x, plain(boundaries[i])) : NULL;
        if (!word || (boundaries[i] & AS_HEAP_BEGINS))
            continue;
        if (!x->late)
            x->late = as_memory_map(((size_t)x->count / 64 + 1) * sizeof *x->late, "the index of objects", err);
        if (!x->late)
            return false;
        unsigned bit = boundaries[i] >> AS_UNIT_SHIFT & 63;
        uint32_t node = word->before + as_count_bits(word->starts & ((UINT64_C(1) << bit) - 1));
        x->late[node / 64] |= UINT64_C(1) << node % 64;
    }
    return true;
}

static void set_gap(struct as_index *x, uint64_t boundary, bool gap)
{
    uint32_t node = as_index_at(x, plain(boundary));
    if (node == AS_NO_NODE)
        return;
    uint64_t bit = UINT64_C(1) << node % 64;
    x->gaps[node / 64] = gap ? x->gaps[node / 64] | bit : x->gaps[node / 64] & ~bit;
}

static bool mark_gaps(struct as_index *x, const uint64_t *boundaries, size_t count, struct as_error *err)
{
    AS_VEC(uint64_t) first_chunks = {0}; // of heaps
    bool ok = true;
    x->gaps = as_memory_map(((size_t)x->count / 64 + 1) * sizeof *x->gaps, "the gaps between chunks", err);
    for (size_t i = 0; ok && x->gaps && i < count; i++) {
        if (boundaries[i] & AS_GAP)
            set_gap(x, boundaries[i], true);
        if (i == 0 || !(boundaries[i - 1] & AS_HEAP_BEGINS) || (boundaries[i] & (AS_GAP | AS_HEAP_BEGINS)))
            continue;
        ok = as_vec_push(&first_chunks, err, boundaries[i]);
    }
    // The gap behind one heap may be where another begins, with a chunk.
    for (size_t i = 0; i < first_chunks.count; i++)
        set_gap(x, first_chunks.items[i], false);
    as_vec_free(&first_chunks);
    return ok && x->gaps;
}

static bool mark_mapped(struct as_index *x, struct as_error *err)
{
    if (x->mapped.count == 0)
        return true;
    x->is_mapped = as_memory_map(((size_t)x->count / 64 + 1) * sizeof *x->is_mapped, "the index of mappings", err);
    AS_FOR_EACH_WHILE(x->is_mapped, struct as_mapped, m, &x->mapped) {
        m->node = as_index_at(x, m->begin);
        x->is_mapped[m->node / 64] |= UINT64_C(1) << m->node % 64;
        x->chunk_bytes -= m->end - AS_HEADER - m->begin - m->bytes;
    }
    return x->is_mapped;
}

bool as_index_build(struct as_index *x, const uint64_t *boundaries, size_t count, as_mapped_vec *mapped,
                    struct as_error *err)
{
    bool any_late = false;
    *x = (struct as_index){0};
    if (mapped) {
        x->mapped = *mapped;
        *mapped = (as_mapped_vec){0};
    }
    if (!find_extents(x, boundaries, count, err) || !find_clusters(x, err) || !add_leaves(x, err))
        return false;
    set_starts(x, boundaries, count, &any_late);
    return number_nodes(x, err) && (!any_late || mark_late(x, boundaries, count, err)) &&
           mark_gaps(x, boundaries, count, err) && mark_mapped(x, err);
}

void as_index_free(struct as_index *x)
{
    for (size_t i = 0; i < x->clusters.count; i++)
        as_memory_unmap(x->clusters.items[i].leaves,
                        (size_t)(x->clusters.items[i].size >> AS_LEAF_SHIFT) * sizeof *x->clusters.items[i].leaves);
    as_memory_unmap(x->gaps, ((size_t)x->count / 64 + 1) * sizeof *x->gaps);
    as_memory_unmap(x->late, ((size_t)x->count / 64 + 1) * sizeof *x->late);
    as_memory_unmap(x->is_mapped, ((size_t)x->count / 64 + 1) * sizeof *x->is_mapped);
    AS_FREE_VECS(x, mapped, clusters, leaves, extents);
    *x = (struct as_index){0};
}

struct as_node_cursor as_nodes_of(const struct as_index *x, uint64_t from, uint64_t to)
{
    struct as_node_cursor c = {.index = x, .end = to};
    const struct as_leaf_word *word = from < to ? as_index_word(x, from) : NULL;
    if (word) {
        uint64_t behind = UINT64_MAX << (from >> AS_UNIT_SHIFT & 63);
        c.bits = word->starts & behind;
        c.node = word->before + as_count_bits(word->starts & ~behind);
    }
    c.address = as_align_down(from, UINT64_C(1) << AS_WORD_SHIFT);
    return c;
}

// INLINE keeps the cursor in registers when all chunks are visited: GCC by itself makes a call of the function.
#define INLINE static inline __attribute__((always_inline))

INLINE bool next_node(struct as_node_cursor *c, uint32_t *node, uint64_t *address)
{
    while (c->bits == 0) {
        c->address += UINT64_C(1) << AS_WORD_SHIFT;
        const struct as_leaf_word *word = c->address < c->end ? as_index_word(c->index, c->address) : NULL;
        if (!word)
            return false;
        c->bits = word->starts;
    }
    *node = c->node++;
    *address = c->address + ((uint64_t)__builtin_ctzll(c->bits) << AS_UNIT_SHIFT) +
               (as_index_is_late(c->index, *node) ? AS_LATE : 0);
    c->bits &= c->bits - 1;
    return *address < c->end;
}

bool as_node_next(struct as_node_cursor *c, uint32_t *node, uint64_t *address)
{
    return next_node(c, node, address);
}

// The last of `count` places, each 1 KiB behind the one before, before which no more than `node` nodes begin.
static uint64_t word_of(const struct as_index *x, uint64_t first, uint64_t count, uint32_t node)
{
    size_t behind = AS_PARTITION_POINT(1, count, i, as_index_word(x, first + (i << AS_WORD_SHIFT))->before <= node);
    return first + ((behind - 1) << AS_WORD_SHIFT);
}

// The last heap that begins at or before an address; the first, where none does.
static const struct as_extent *extent_before(const struct as_index *x, uint64_t address)
{
    return &x->extents.items[AS_PARTITION_POINT(1, x->extents.count, i, x->extents.items[i].start <= address) - 1];
}

bool as_index_is_behind(const struct as_index *x, uint64_t address)
{
    return extent_before(x, address - AS_HEADER)->end <= address;
}

uint32_t as_index_mapped_at(const struct as_index *x, uint64_t pointer, bool *begins)
{
    uint64_t start = as_align_down(pointer, AS_ALIGNMENT);
    uint32_t node = as_index_node_at(x, start);
    *begins = start == pointer;
    return node != AS_NO_NODE && as_index_is_mapped(x, node) ? node : AS_NO_NODE;
}

uint64_t as_index_address(const struct as_index *x, uint32_t node)
{
    if (node >= x->count)
        return AS_UNKNOWN;
    size_t behind = AS_PARTITION_POINT(1, x->extents.count, i, as_index_at(x, x->extents.items[i].start) <= node);
    const struct as_extent *e = &x->extents.items[behind - 1];
    uint64_t first = as_align_down(e->start, UINT64_C(1) << AS_WORD_SHIFT);
    uint64_t word = word_of(x, first, ((e->end - first) >> AS_WORD_SHIFT) + 1, node);
    uint32_t left = node - as_index_word(x, word)->before;
    uint64_t bits = as_index_word(x, word)->starts;
    for (; left > 0 && bits != 0; left--)
        bits &= bits - 1;
    return bits == 0
               ? AS_UNKNOWN
               : word + ((uint64_t)__builtin_ctzll(bits) << AS_UNIT_SHIFT) + (as_index_is_late(x, node) ? AS_LATE : 0);
}

struct as_used_cursor as_used_begin(const struct as_index *x)
{
    return (struct as_used_cursor){.index = x, .node = AS_NO_NODE};
}

// The node behind the current one, in this heap.
INLINE void advance(struct as_used_cursor *c)
{
    if (!next_node(&c->nodes, &c->node, &c->address)) {
        c->node = AS_NO_NODE;
        c->address = c->limit;
    }
}

INLINE bool next_used(struct as_used_cursor *c, struct as_used_chunk *chunk)
{
    for (;;) {
        while (c->node == AS_NO_NODE) {
            if (c->extent == c->index->extents.count)
                return false;
            const struct as_extent *e = &c->index->extents.items[c->extent++];
            c->nodes = as_nodes_of(c->index, e->start, e->end);
            c->limit = e->end;
            advance(c);
        }
        *chunk = (struct as_used_chunk){.node = c->node, .address = c->address};
        advance(c);
        chunk->size = c->address - chunk->address;
        c->seen = chunk->node + 1;
        if (!as_index_is_gap(c->index, chunk->node))
            return true;
    }
}

bool as_used_next(struct as_used_cursor *c)
{
    return next_used(c, &c->chunk);
}

size_t as_used_some(struct as_used_cursor *c, uint32_t end, struct as_used_chunk chunks[AS_USED_SOME])
{
    struct as_used_cursor here = *c; // in registers
    size_t count = 0;
    while (count < AS_USED_SOME && next_used(&here, &chunks[count]) && chunks[count].node < end)
        count++;
    *c = here;
    return count;
}

// Makes a node the one to come.
static void seek(struct as_used_cursor *c, uint32_t node)
{
    uint64_t address = as_index_address(c->index, node);
    const struct as_extent *e = extent_before(c->index, address);
    c->extent = (size_t)(e - c->index->extents.items) + 1;
    c->nodes = as_nodes_of(c->index, address, e->end);
    c->limit = e->end;
    advance(c);
}

struct as_used_cursor as_used_from(const struct as_index *x, uint32_t node)
{
    struct as_used_cursor c = as_used_begin(x);
    seek(&c, node);
    return c;
}

bool as_used_next_of(struct as_used_cursor *c, const uint8_t *wanted)
{
    enum { NEAR = 64 }; // nodes: to go past them takes less than a search
    for (;;) {
        uint32_t next = as_next_byte(wanted, c->seen, c->index->count);
        if (next == c->index->count)
            return false;
        if (next - c->seen > NEAR)
            seek(c, next);
        do {
            if (!as_used_next(c))
                return false;
        } while (c->chunk.node < next);
        if (wanted[c->chunk.node])
            return true;
    }
}
