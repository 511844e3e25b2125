// SPDX-License-Identifier: MIT
#include "graph/leaks.h"
#include "base/memory.h"
#include "graph/mark.h"
#include "graph/types.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_GROUPS = 65535, // all others are one
    BUCKET_BITS = 17,
    BUCKETS = 1 << BUCKET_BITS,
    MOST_TRIES = 256,
};

// Words of stacks: a node that several lead to is held; that one alone leads to is a suspect, with all that only it holds.
static void mark_stacks(struct as_leaks *l, const struct as_graph *g, struct as_marks *reached)
{
    const struct as_roots *r = &g->roots;
    for (size_t i = 0; i < r->list.count; i++) {
        uint32_t node = r->list.items[i].node;
        if (r->sources.items[r->list.items[i].source].kind != AS_ROOT_STACK || as_marked(reached, node))
            continue;
        if (l->of_node[node] == AS_LEAK_SUSPECT)
            as_mark(reached, node);
        l->of_node[node] = AS_LEAK_SUSPECT;
    }
    as_marks_spread(reached, &g->edges);
}

// All that such words lead to, and that nothing else does.
static void mark_suspects(struct as_leaks *l, const struct as_graph *g, struct as_marks *reached, uint64_t *before)
{
    memcpy(before, reached->bits, as_marks_words(reached) * sizeof *before);
    as_marks_add_roots(reached, &g->edges, &g->roots, AS_ROOT_STACK);
    for (size_t i = 0; i < as_marks_words(reached); i++)
        for (uint64_t added = reached->bits[i] & ~before[i]; added != 0; added &= added - 1)
            l->of_node[i * 64 + (size_t)__builtin_ctzll(added)] = AS_LEAK_SUSPECT;
}

// Clears what mark_stacks has noted of nodes that turned out to be held.
static void forget_held(struct as_leaks *l, const struct as_graph *g, const struct as_marks *reached)
{
    const struct as_roots *r = &g->roots;
    for (size_t i = 0; i < r->list.count; i++)
        if (as_marked(reached, r->list.items[i].node))
            l->of_node[r->list.items[i].node] = AS_LEAK_NONE;
}

// What no lost chunk leads to is lost directly.
static void find_direct(struct as_leaks *l, const struct as_graph *g, const struct as_marks *reached)
{
    const struct as_edges *e = &g->edges;
    for (uint32_t node = as_next_unmarked(reached, 0); node < l->nodes; node = as_next_unmarked(reached, node + 1))
        l->of_node[node] = AS_LEAK_DIRECT;
    for (uint32_t node = as_next_unmarked(reached, 0); node < l->nodes; node = as_next_unmarked(reached, node + 1))
        AS_FOR_EDGES(e, node, i)
            if (!as_marked(reached, as_edge_to(e, node, i)))
                l->of_node[as_edge_to(e, node, i)] = AS_LEAK_INDIRECT;
}

// Adds what is lost directly, and all that it leads to. Each node up to here is in the set, or has its kind in `of_node`.
static void mark_direct(const struct as_leaks *l, const struct as_graph *g, struct as_marks *reached)
{
    for (uint32_t node = as_next_unmarked(reached, 0); node < l->nodes; node = as_next_unmarked(reached, node + 1))
        if (l->of_node[node] == AS_LEAK_DIRECT)
            as_mark(reached, node);
    as_marks_spread(reached, &g->edges);
}

// The nodes of a circle lead to each other: the first of them stands for all, unless another circle leads there. `reached`: has all lost
// nodes that those of find_direct lead to. A first pass notes each node that no node before it leads to; a second one, from the end on,
// forgets those that a node behind leads to. `before`: room for the set as it is now.
static void find_circles(struct as_leaks *l, const struct as_graph *g, struct as_marks *reached, uint64_t *before)
{
    size_t bytes = as_marks_words(reached) * sizeof *before;
    memcpy(before, reached->bits, bytes);
    for (uint32_t node = as_next_unmarked(reached, 0); node < l->nodes; node = as_next_unmarked(reached, node)) {
        l->of_node[node] = AS_LEAK_DIRECT;
        as_mark(reached, node);
        as_marks_spread(reached, &g->edges);
    }
    memcpy(reached->bits, before, bytes);
    for (uint32_t node = l->nodes; node-- > 0;) {
        if (l->of_node[node] != AS_LEAK_DIRECT || before[node / 64] >> node % 64 & 1)
            continue;
        if (as_marked(reached, node))
            l->of_node[node] = AS_LEAK_INDIRECT;
        as_mark(reached, node);
        as_marks_spread(reached, &g->edges);
    }
    for (uint32_t node = 0; node < l->nodes; node++)
        if (l->of_node[node] != AS_LEAK_NONE && !(before[node / 64] >> node % 64 & 1))
            l->of_node[node] |= AS_LEAK_IN_CYCLE;
}

// A runtime's objects are for its collector to find: what they hold is not lost.
static void mark_objects(const struct as_graph *g, struct as_marks *reached)
{
    for (uint32_t node = 0; node < g->objects.nodes; node++)
        if (as_object_is_collectors(&g->objects, node))
            as_mark(reached, node);
    as_marks_spread(reached, &g->edges);
}

// What a runtime's objects lead to, and nothing else does. Those that no root leads to are the same as for owners (AS_ROOT_UNREACHED).
static bool find_garbage(struct as_leaks *l, const struct as_graph *g, struct as_error *err)
{
    struct as_marks reached;
    uint64_t *held = NULL;
    l->garbage = (struct as_leak_sum){AS_UNKNOWN, AS_UNKNOWN};
    if (!g->objects.of_node)
        return true;
    bool ok = as_marks_open(&reached, &g->index, err);
    size_t bytes = as_marks_words(&reached) * sizeof *held;
    for (enum as_root_kind kind = 0; ok && kind < AS_ROOT_KINDS; kind++)
        if (kind != AS_ROOT_UNREACHED)
            as_marks_add_roots(&reached, &g->edges, &g->roots, kind);
    held = ok ? as_memory_map(bytes, "the marks of chunks", err) : NULL;
    if (held) {
        memcpy(held, reached.bits, bytes);
        mark_objects(g, &reached);
        l->garbage = (struct as_leak_sum){0};
    }
    for (struct as_used_cursor c = as_used_begin(&g->index); held && as_used_next(&c);) {
        bool garbage = as_marked(&reached, c.chunk.node) && !(held[c.chunk.node / 64] >> c.chunk.node % 64 & 1);
        l->garbage.count += garbage;
        l->garbage.bytes += garbage ? as_used_bytes(&g->index, &c.chunk) : 0;
    }
    as_memory_unmap(held, bytes);
    as_marks_free(&reached);
    return held;
}

// `room`: for another set, of one function after the other.
static void classify_leaks(struct as_leaks *l, const struct as_graph *g, struct as_marks *reached, uint64_t *room)
{
    mark_objects(g, reached);
    for (enum as_root_kind kind = 0; kind < AS_ROOT_STACK; kind++)
        as_marks_add_roots(reached, &g->edges, &g->roots, kind);
    as_marks_add_roots(reached, &g->edges, &g->roots, AS_ROOT_FRAMES);
    mark_stacks(l, g, reached);
    forget_held(l, g, reached);
    mark_suspects(l, g, reached, room);
    find_direct(l, g, reached);
    mark_direct(l, g, reached);
    find_circles(l, g, reached, room);
}

static struct as_leak_group *group_of(struct as_leaks *l, uint32_t *buckets, uint32_t type, uint64_t size)
{
    uint64_t key = (size / AS_ALIGNMENT << 20 | type) * UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < MOST_TRIES; i++) {
        uint32_t *bucket = &buckets[((key >> (64 - BUCKET_BITS)) + i) % BUCKETS];
        struct as_leak_group *group = *bucket != 0 ? &l->groups.items[*bucket] : NULL;
        if (group && group->type == type && group->size == size)
            return group;
        if (group)
            continue;
        group = l->groups.count < MOST_GROUPS ? as_vec_add(&l->groups, NULL) : NULL;
        if (!group)
            break;
        *group = (struct as_leak_group){.type = type, .size = size};
        *bucket = (uint32_t)(l->groups.count - 1);
        return group;
    }
    return &l->groups.items[0];
}

static uint64_t bytes_of(const struct as_leak_group *g)
{
    return g->sums[AS_LEAK_DIRECT].bytes + g->sums[AS_LEAK_INDIRECT].bytes + g->sums[AS_LEAK_SUSPECT].bytes;
}

static int by_bytes(const void *a, const void *b)
{
    uint64_t x = bytes_of(a), y = bytes_of(b);
    return x > y ? -1 : x < y;
}

static void count_leak(struct as_leaks *l, uint32_t *buckets, uint32_t type, const struct as_used_chunk *chunk)
{
    enum as_leak leak = as_leak_kind(l->of_node[chunk->node]);
    bool in_cycle = l->of_node[chunk->node] & AS_LEAK_IN_CYCLE;
    struct as_leak_group *group = group_of(l, buckets, type, chunk->size);
    if (group->example == 0 || (leak == AS_LEAK_DIRECT && group->sums[AS_LEAK_DIRECT].count == 0))
        group->example = chunk->address + AS_HEADER;
    group->sums[leak].count++;
    group->sums[leak].bytes += chunk->size;
    l->sums[leak].count++;
    l->sums[leak].bytes += chunk->size;
    group->in_cycles += in_cycle;
    l->in_cycles[leak].count += in_cycle;
    l->in_cycles[leak].bytes += in_cycle ? chunk->size : 0;
}

bool as_leaks_add_up(struct as_leaks *l, const struct as_graph *g, struct as_error *err)
{
    uint32_t *buckets = as_memory_map(BUCKETS * sizeof *buckets, "the kinds of lost chunks", err);
    bool ok = buckets && as_vec_reserve(&l->groups, 1, err);
    l->groups.count = ok; // [0]: those for which there is no room
    for (struct as_used_cursor c = as_used_begin(&g->index); ok && as_used_next_of(&c, l->of_node);)
        count_leak(l, buckets, as_graph_type(g, c.chunk.node), &c.chunk);
    as_memory_unmap(buckets, BUCKETS * sizeof *buckets);
    if (ok)
        qsort(l->groups.items, l->groups.count, sizeof *l->groups.items, by_bytes);
    while (l->groups.count > 0 && bytes_of(&l->groups.items[l->groups.count - 1]) == 0)
        l->groups.count--;
    return ok;
}

bool as_leaks_find(struct as_leaks *l, const struct as_graph *g, struct as_error *err)
{
    struct as_marks reached;
    *l = (struct as_leaks){.nodes = g->index.count};
    l->of_node = as_memory_map((size_t)l->nodes + 1, "the lost chunks", err);
    if (!l->of_node || !find_garbage(l, g, err))
        return false;
    bool ok = as_marks_open(&reached, &g->index, err);
    size_t bytes = as_marks_words(&reached) * sizeof(uint64_t);
    uint64_t *room = ok ? as_memory_map(bytes, "the marks of chunks", err) : NULL;
    if (room)
        classify_leaks(l, g, &reached, room);
    as_memory_unmap(room, bytes);
    as_marks_free(&reached);
    return room;
}

void as_leaks_free(struct as_leaks *l)
{
    as_memory_unmap(l->of_node, (size_t)l->nodes + 1);
    as_vec_free(&l->groups);
    *l = (struct as_leaks){0};
}
