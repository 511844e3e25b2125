// SPDX-License-Identifier: MIT
// What is lost directly, and what together with another lost chunk: in random graphs with many circles, against the plain way to find it
// out.
#include "graph/leaks.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 12, ROUNDS = 20000 };

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
    uint64_t gaps[1];                   // none
    bool leads[MOST_NODES][MOST_NODES]; // an edge, or a way
    bool held[MOST_NODES];
};

static void add_edges(struct made *m, uint32_t count)
{
    struct as_edge_batch batch = {0};
    uint32_t mean = random_below(3);
    CHECK(as_edges_open(&m->graph.edges, count, NULL));
    for (uint32_t node = 0; node < count; node++) {
        CHECK(as_edge_batch_begin(&batch, NULL));
        for (uint32_t i = random_below(2 * mean + 1); i > 0; i--) {
            uint32_t to = random_below(count);
            if (to != node && !m->leads[node][to])
                CHECK(as_edge_batch_add(&batch, node, to, 0, true, NULL));
            m->leads[node][to] |= to != node;
        }
    }
    CHECK(as_edges_add(&m->graph.edges, 0, &batch, NULL) && as_edges_close(&m->graph.edges, NULL));
    as_edge_batch_free(&batch);
}

// Variables that lead to some nodes; `leads` has all ways then.
static void add_roots(struct made *m, uint32_t count)
{
    struct as_roots *r = &m->graph.roots;
    as_vec_add(&r->sources, NULL)->kind = AS_ROOT_GLOBAL;
    for (uint32_t through = 0; through < count; through++)
        for (uint32_t from = 0; from < count; from++)
            for (uint32_t to = 0; to < count; to++)
                m->leads[from][to] |= m->leads[from][through] && m->leads[through][to];
    for (uint32_t i = random_below(3); i > 0; i--) {
        uint32_t node = random_below(count);
        *as_vec_add(&r->list, NULL) = (struct as_root){.address = 0x1000, .node = node};
        for (uint32_t to = 0; to < count; to++)
            m->held[to] |= to == node || m->leads[node][to];
    }
}

// Among those that lead to each other, and to which no other lost node leads, the first one.
static bool is_direct(const struct made *m, uint32_t node, uint32_t count)
{
    for (uint32_t other = 0; other < count; other++)
        if (other != node && !m->held[other] && m->leads[other][node] && (!m->leads[node][other] || other < node))
            return false;
    return true;
}

static bool has_lost_before(const struct made *m, uint32_t node, uint32_t count)
{
    for (uint32_t other = 0; other < count; other++)
        if (other != node && !m->held[other] && m->leads[other][node])
            return true;
    return false;
}

// Does no lost node lead there to which none leads?
static bool is_in_cycle(const struct made *m, uint32_t node, uint32_t count)
{
    for (uint32_t other = 0; other < count; other++)
        if ((other == node || m->leads[other][node]) && !m->held[other] && !has_lost_before(m, other, count))
            return false;
    return true;
}

static void check_round(struct made *m)
{
    struct as_leaks leaks;
    uint32_t count = m->graph.index.count = 1 + random_below(MOST_NODES);
    m->graph.index.gaps = m->gaps;
    add_edges(m, count);
    add_roots(m, count);
    CHECK(as_leaks_find(&leaks, &m->graph, NULL));
    for (uint32_t node = 0; node < count; node++) {
        enum as_leak expected = m->held[node]               ? AS_LEAK_NONE
                                : is_direct(m, node, count) ? AS_LEAK_DIRECT
                                                            : AS_LEAK_INDIRECT;
        CHECK(as_leak_kind(leaks.of_node[node]) == expected, "node %u of %u", node, count);
        bool in_cycle = !m->held[node] && is_in_cycle(m, node, count);
        CHECK(!!(leaks.of_node[node] & AS_LEAK_IN_CYCLE) == in_cycle, "node %u of %u", node, count);
    }
    as_leaks_free(&leaks);
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
