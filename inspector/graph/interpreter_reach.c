// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "graph/dominators.h"
#include "graph/mark.h"

struct precise_search {
    const struct as_edges *edges;
    const struct as_objects *objects;
    const struct as_roots *roots;
    struct as_marks reached;
    const uint64_t *avoided; // a bit for each node
};

static bool is_avoided(const struct precise_search *s, uint32_t node)
{
    return s->avoided && s->avoided[node / 64] >> node % 64 & 1;
}

// Where others' ways through chunks lead; at an object a way ends.
static bool goes_among_chunks(const struct precise_search *s, uint32_t from, uint32_t to)
{
    (void)to;
    return !as_object_counts(s->objects, from);
}

// `avoided`: where others' ways lead.
static bool goes_surely(const struct precise_search *s, uint32_t from, uint32_t to)
{
    return as_object_counts(s->objects, to) || (!as_object_counts(s->objects, from) && !is_avoided(s, to));
}

// `avoided`: what is surely held.
static bool goes_elsewhere(const struct precise_search *s, uint32_t from, uint32_t to)
{
    (void)from;
    return !is_avoided(s, to) || !as_object_counts(s->objects, to);
}

// All that strong roots lead to, those of the interpreter (`united`) or those of others, by edges that `goes` allows. NULL: AS_NO_MEMORY.
static uint64_t *reach(struct precise_search *s, bool united,
                       bool (*goes)(const struct precise_search *, uint32_t from, uint32_t to), struct as_error *err)
{
    struct as_marks_ahead ahead = {.in = 0};
    struct as_edge_range edges;
    uint32_t node;
    if (!as_marks_open_empty(&s->reached, s->edges->nodes, err)) {
        as_marks_free(&s->reached);
        return NULL;
    }
    AS_FOR_EACH(const struct as_root, root, &s->roots->list) {
        bool elsewhere = goes == goes_elsewhere && !goes(s, root->node, root->node);
        if (root->united == united && !elsewhere && !as_root_is_weak(s->roots->sources.items[root->source].kind))
            as_mark(&s->reached, root->node);
    }
    while (as_marks_take(&s->reached, &ahead, s->edges, &node, &edges))
        for (uint32_t i = edges.first; i < edges.end; i = as_edge_next(s->edges, i)) {
            uint32_t to = as_edge_to(s->edges, node, i);
            if (goes(s, node, to))
                as_mark(&s->reached, to);
        }
    uint64_t *bits = s->reached.bits;
    s->reached.bits = NULL;
    as_marks_free(&s->reached);
    return bits;
}

static void free_bits(const struct as_precise *p, uint64_t *bits)
{
    as_memory_unmap(bits, ((size_t)p->nodes / 64 + 1) * sizeof *bits);
}

bool as_precise_find(struct as_precise *p, const struct as_edges *e, const struct as_objects *o,
                     const struct as_roots *r, struct as_error *err)
{
    struct precise_search s = {.edges = e, .objects = o, .roots = r};
    *p = (struct as_precise){.nodes = e->nodes};
    // Chunks count as objects do where the objects are Ruby's.
    if (o->blocks == 0 || o->evidence != AS_OBJECTS_OF_PYTHON)
        return true;
    uint64_t *among_chunks = reach(&s, false, goes_among_chunks, err);
    s.avoided = among_chunks;
    p->held = among_chunks ? reach(&s, true, goes_surely, err) : NULL;
    s.avoided = p->held;
    p->others = p->held ? reach(&s, false, goes_elsewhere, err) : NULL;
    free_bits(p, among_chunks);
    return p->others;
}

void as_precise_free(struct as_precise *p)
{
    free_bits(p, p->held);
    free_bits(p, p->others);
    *p = (struct as_precise){0};
}
