// SPDX-License-Identifier: MIT
// The objects that nothing leads to: in random graphs of blocks and chunks, against a plain search. What is reached gets no other root, or
// a stack that alone holds an object would share it.
#include "graph/graph.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { NODES = 20, ROUNDS = 2000 };

static uint32_t random_below(uint32_t limit)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % limit);
}

struct made {
    struct as_graph graph;
    uint64_t gaps[1]; // none
    uint32_t of_node[NODES];
    bool leads[NODES][NODES], reached[NODES];
};

static void make_nodes(struct made *m)
{
    struct as_edge_batch batch = {0};
    m->graph.index = (struct as_index){.count = NODES, .gaps = m->gaps};
    m->graph.objects.of_node = m->of_node;
    m->graph.objects.nodes = NODES;
    m->graph.objects.blocks = 1;
    m->graph.interpreter.module = UINT32_MAX;
    CHECK(as_edges_open(&m->graph.edges, NODES, NULL));
    for (uint32_t node = 0; node < NODES; node++) {
        m->of_node[node] = random_below(2) ? AS_OBJECT_BLOCK : 0;
        uint32_t to = random_below(NODES);
        CHECK(as_edge_batch_begin(&batch, NULL));
        m->leads[node][to] = to != node;
        CHECK(to == node || as_edge_batch_add(&batch, node, to, 0, true, NULL));
    }
    CHECK(as_edges_add(&m->graph.edges, 0, &batch, NULL) && as_edges_close(&m->graph.edges, NULL));
    as_edge_batch_free(&batch);
}

// Each of any kind that there may be before: strong or weak.
static void make_roots(struct made *m)
{
    struct as_roots *r = &m->graph.roots;
    for (uint32_t kind = 0; kind < AS_ROOT_UNREACHED; kind++) {
        as_vec_add(&r->sources, NULL)->kind = (enum as_root_kind)kind;
        uint32_t node = random_below(NODES);
        m->reached[node] |= random_below(4) == 0;
        if (m->reached[node])
            *as_vec_add(&r->list, NULL) = (struct as_root){.address = 0x1000, .node = node, .source = kind & INT32_MAX};
    }
    for (int pass = 0; pass < NODES; pass++)
        for (uint32_t from = 0; from < NODES; from++)
            for (uint32_t to = 0; to < NODES; to++)
                m->reached[to] |= m->reached[from] && m->leads[from][to];
}

static void check_round(struct made *m)
{
    const struct as_roots *r = &m->graph.roots;
    make_nodes(m);
    make_roots(m);
    size_t before = r->list.count;
    CHECK(as_graph_settle_objects(&m->graph, NULL));
    for (uint32_t node = 0; node < NODES; node++) {
        bool added = before < r->list.count && r->list.items[before].node == node;
        CHECK(added == (m->of_node[node] == AS_OBJECT_BLOCK && !m->reached[node]));
        CHECK(!added || r->sources.items[r->list.items[before].source].kind == AS_ROOT_UNREACHED);
        before += added;
    }
    CHECK(before == r->list.count);
    as_edges_free(&m->graph.edges);
    as_roots_free(&m->graph.roots);
}

int main(void)
{
    struct made *m = malloc(sizeof *m);
    for (int round = 0; round < ROUNDS; round++) {
        memset(m, 0, sizeof *m);
        check_round(m);
    }
    free(m);
    return 0;
}
