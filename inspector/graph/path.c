// SPDX-License-Identifier: MIT
#include "base/memory.h"
#include "graph/graph.h"
#include "graph/mark.h"

#include <string.h>

enum { WORD = sizeof(uint64_t), BLOCK = 4096 };

struct way_search {
    const struct as_graph *graph;
    struct as_marks reached;
    uint32_t *from; // of each node: the node before it on the way, plus 1; 0: a root
    uint32_t goal;
};

static bool arrived(const struct way_search *s)
{
    return as_marked(&s->reached, s->goal);
}

static void spread(struct way_search *s)
{
    const struct as_edges *e = &s->graph->edges;
    while (s->reached.head < s->reached.tail && !arrived(s)) {
        uint32_t node = s->reached.queue[s->reached.head++];
        AS_FOR_EDGES(e, node, i) {
            uint32_t to = as_edge_to(e, node, i);
            if (!as_marked(&s->reached, to))
                s->from[to] = node + 1;
            as_mark(&s->reached, to);
        }
    }
}

// All roots that are weak or not at once, so that the way is the shortest.
static void search_from_roots(struct way_search *s, bool weak)
{
    const struct as_roots *r = &s->graph->roots;
    for (size_t i = 0; i < r->list.count; i++)
        if (as_root_is_weak(r->sources.items[r->list.items[i].source].kind) == weak)
            as_mark(&s->reached, r->list.items[i].node);
    spread(s);
}

// The first word of [address, address + length) that leads to a node: its offset, and the word. False: there is none.
static bool find_word(const struct as_graph *g, struct as_target *t, uint64_t address, uint64_t length, uint32_t node,
                      uint64_t *offset, uint64_t *word)
{
    uint64_t words[BLOCK / WORD];
    for (uint64_t at = 0; at < length; at += BLOCK) {
        size_t wanted = length - at < BLOCK ? (size_t)(length - at) : BLOCK;
        size_t got = as_target_read_resident(t, address + at, words, wanted);
        for (size_t i = 0; i < got / WORD; i++) {
            *offset = at + i * WORD;
            *word = words[i];
            if (as_index_target(&g->index, words[i]) == node)
                return true;
        }
    }
    return false;
}

static uint64_t size_of(const struct as_graph *g, uint32_t node)
{
    uint64_t next = as_index_address(&g->index, node + 1); // behind each chunk is another, or a gap
    return next - as_index_address(&g->index, node);
}

// Fills in the steps from the last to the first, and then where the pointers are.
static bool write_down(struct as_way *p, const struct way_search *s, struct as_target *t, struct as_error *err)
{
    const struct as_graph *g = s->graph;
    size_t count = 1;
    for (uint32_t node = s->goal; s->from[node] != 0; node = s->from[node] - 1)
        count++;
    if (!as_vec_reserve(&p->steps, count, err))
        return false;
    p->steps.count = count;
    for (uint32_t node = s->goal; count-- > 0; node = s->from[node] - 1) {
        p->steps.items[count] = (struct as_step){
            .node = node, .address = as_index_address(&g->index, node) + AS_HEADER, .size = size_of(g, node)};
        if (s->from[node] == 0)
            break;
    }
    for (size_t i = 0; i + 1 < p->steps.count; i++) {
        struct as_step *step = &p->steps.items[i];
        uint64_t word;
        if (find_word(g, t, step->address, step->size - WORD, step[1].node, &step->offset, &word))
            step->leads_to = word - step[1].address;
        else
            step->offset = step->leads_to = AS_UNKNOWN;
    }
    return true;
}

static void find_root(struct as_way *p, const struct as_graph *g, struct as_target *t)
{
    const struct as_roots *r = &g->roots;
    uint32_t node = p->steps.items[0].node;
    p->leads_to = AS_UNKNOWN;
    for (int weak = 0; weak < 2 && p->root == AS_NO_NODE; weak++)
        for (size_t i = 0; i < r->list.count && p->root == AS_NO_NODE; i++)
            if (r->list.items[i].node == node &&
                as_root_is_weak(r->sources.items[r->list.items[i].source].kind) == (bool)weak)
                p->root = (uint32_t)i;
    uint64_t word;
    if (p->root != AS_NO_NODE && r->list.items[p->root].address != 0 &&
        as_target_read_u64(t, r->list.items[p->root].address, &word) && as_index_target(&g->index, word) == node)
        p->leads_to = word - p->steps.items[0].address;
}

bool as_way_find(struct as_way *p, const struct as_graph *g, struct as_target *t, uint64_t address,
                 struct as_error *err)
{
    struct way_search s = {.graph = g, .goal = as_index_target(&g->index, address)};
    *p = (struct as_way){.root = AS_NO_NODE};
    if (s.goal == AS_NO_NODE)
        return true;
    size_t bytes = ((size_t)g->index.count + 1) * sizeof *s.from;
    s.from = as_memory_map(bytes, "the ways to chunks", err);
    bool ok = s.from && as_marks_open(&s.reached, &g->index, err);
    if (ok) {
        search_from_roots(&s, false);
        if (!arrived(&s))
            search_from_roots(&s, true);
        ok = write_down(p, &s, t, err);
        if (ok && arrived(&s))
            find_root(p, g, t);
        as_marks_free(&s.reached);
    }
    as_memory_unmap(s.from, bytes);
    return ok;
}

void as_way_free(struct as_way *p)
{
    as_vec_free(&p->steps);
}
