// SPDX-License-Identifier: MIT
// What can be reached from where.
#pragma once

#include "graph/edges.h"
#include "graph/index.h"
#include "graph/roots.h"

// A set of nodes, a bit for each, and room for a search.
struct as_marks {
    uint64_t *bits;
    uint32_t *queue;
    uint32_t nodes;
    uint32_t head, tail; // of the queue
};

// An empty set, in which the gaps are, so that nobody counts them. False: AS_NO_MEMORY. Free it in either case.
bool as_marks_open(struct as_marks *m, const struct as_index *x, struct as_error *err);
// A set without the gaps, likewise.
bool as_marks_open_empty(struct as_marks *m, uint32_t nodes, struct as_error *err);
void as_marks_free(struct as_marks *m);

static inline size_t as_marks_words(const struct as_marks *m)
{
    return (size_t)m->nodes / 64 + 1;
}

static inline bool as_marked(const struct as_marks *m, uint32_t node)
{
    return m->bits[node / 64] >> node % 64 & 1;
}

// Adds a node from which a search is to go on. Nothing happens if it is in the set.
static inline void as_mark(struct as_marks *m, uint32_t node)
{
    uint64_t bit = UINT64_C(1) << node % 64;
    if (m->bits[node / 64] & bit)
        return;
    m->bits[node / 64] |= bit;
    m->queue[m->tail++] = node;
}

// The first node from `node` on that is not in the set; `nodes`: there is none.
uint32_t as_next_unmarked(const struct as_marks *m, uint32_t node);

// The nodes that a search takes next: they are on their way from memory, first where their edges begin, then, half of the way later, the
// edges themselves. Nodes are met in no order, so that each would be a miss of all caches.
enum { AS_MARKS_AHEAD = 32, AS_MARKS_HALF = AS_MARKS_AHEAD / 2 };
struct as_marks_ahead {
    uint32_t nodes[AS_MARKS_AHEAD];
    struct as_edge_range edges[AS_MARKS_AHEAD];
    unsigned in, known, out; // known: where the edges are is known of those before
};

// Takes the next node of a search, and its edges. The one added last goes first: what it leads to mostly lies beside it, and the queue
// stays short. False: the queue is empty.
static inline bool as_marks_take(struct as_marks *m, struct as_marks_ahead *a, const struct as_edges *e, uint32_t *node,
                                 struct as_edge_range *edges)
{
    for (; m->tail > m->head && a->in - a->out < AS_MARKS_AHEAD; a->in++) {
        a->nodes[a->in % AS_MARKS_AHEAD] = m->queue[--m->tail];
        __builtin_prefetch(as_edges_span(e, a->nodes[a->in % AS_MARKS_AHEAD]));
    }
    if (a->in == a->out)
        return false;
    for (; a->known < a->in && a->known - a->out <= AS_MARKS_HALF; a->known++) {
        struct as_edge_range found = as_edges_of(e, a->nodes[a->known % AS_MARKS_AHEAD]);
        a->edges[a->known % AS_MARKS_AHEAD] = found;
        __builtin_prefetch(&e->list.items[found.first]);
    }
    *edges = a->edges[a->out % AS_MARKS_AHEAD];
    *node = a->nodes[a->out++ % AS_MARKS_AHEAD];
    return true;
}

// Adds everything that the nodes added since the last call lead to. The queue is empty then.
void as_marks_spread(struct as_marks *m, const struct as_edges *e);

// Adds what the roots of a kind lead to, and spreads it.
void as_marks_add_roots(struct as_marks *m, const struct as_edges *e, const struct as_roots *r, enum as_root_kind kind);
