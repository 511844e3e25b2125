// SPDX-License-Identifier: MIT
// What an interpreter surely holds, and the dominator tree without the edges that own nothing of it: random graphs of chunks and objects,
// against plain searches and what is reached after the removal of each node.
#include "graph/dominators.h"
#include "support/check.h"

#include <string.h>

enum { NODES = 20, OWNERS = 4, ALL = OWNERS + NODES, ROUNDS = 2000 };
enum { INTERPRETER }; // the first owner

static uint32_t random_below(uint32_t limit)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % limit);
}

struct made {
    bool leads[ALL][ALL]; // of owners and, behind them, nodes
    bool weak[OWNERS];
    uint32_t of_node[NODES];
    struct as_edges edges;
    struct as_objects objects;
    struct as_roots roots;
    struct as_owners owners;
};

static bool counts(const struct made *m, uint32_t vertex)
{
    return vertex >= OWNERS && m->of_node[vertex - OWNERS] != 0;
}

static void make_owners(struct made *m)
{
    for (uint32_t owner = 0; owner < OWNERS; owner++) {
        m->weak[owner] = owner != INTERPRETER && random_below(4) == 0;
        as_vec_add(&m->roots.sources, NULL)->kind = m->weak[owner] ? AS_ROOT_STACK : AS_ROOT_GLOBAL;
        struct as_owner *o = as_vec_add(&m->owners.list, NULL);
        *o = (struct as_owner){
            .source = owner, .first = (uint32_t)m->roots.list.count, .count = 1, .united = owner == INTERPRETER};
        uint32_t node = random_below(NODES);
        m->leads[owner][OWNERS + node] = true;
        *as_vec_add(&m->roots.list, NULL) = (struct as_root){
            .address = 0x1000, .node = node, .source = owner & INT32_MAX, .united = owner == INTERPRETER};
    }
}

static void make(struct made *m)
{
    static const uint32_t kinds[] = {0, 0, AS_OBJECT_BLOCK, AS_OBJECT_BLOCK | 1, 1};
    struct as_edge_batch batch = {0};
    uint32_t most = 2 + random_below(3);
    *m = (struct made){.objects = {.of_node = m->of_node, .nodes = NODES, .blocks = 1}};
    CHECK(as_edges_open(&m->edges, NODES, NULL));
    for (uint32_t node = 0; node < NODES; node++) {
        m->of_node[node] = kinds[random_below(sizeof kinds / sizeof *kinds)];
        CHECK(as_edge_batch_begin(&batch, NULL));
        for (uint32_t i = random_below(most); i > 0; i--) {
            uint32_t to = random_below(NODES);
            m->leads[OWNERS + node][OWNERS + to] = true;
            CHECK(as_edge_batch_add(&batch, node, to, 0, true, NULL));
        }
    }
    CHECK(as_edges_add(&m->edges, 0, &batch, NULL) && as_edges_close(&m->edges, NULL));
    as_edge_batch_free(&batch);
    make_owners(m);
}

static void unmake(struct made *m)
{
    as_edges_free(&m->edges);
    as_vec_free(&m->roots.sources);
    as_vec_free(&m->roots.list);
    as_owners_free(&m->owners);
}

// Spreads a set of vertices over the edges of `leads`.
static void spread(bool leads[ALL][ALL], bool *reached)
{
    for (bool more = true; more;) {
        more = false;
        for (uint32_t from = 0; from < ALL; from++)
            for (uint32_t to = 0; reached[from] && to < ALL; to++)
                if (leads[from][to] && !reached[to])
                    more = reached[to] = true;
    }
}

enum which { UNITED, OTHERS, STRONG, EVERY };

// What owners reach without the vertex `removed`.
static void reach(const struct made *m, bool leads[ALL][ALL], enum which which, uint32_t removed, bool *reached)
{
    bool left[ALL][ALL];
    memset(reached, 0, ALL);
    for (uint32_t from = 0; from < ALL; from++)
        for (uint32_t to = 0; to < ALL; to++)
            left[from][to] = leads[from][to] && from != removed && to != removed;
    for (uint32_t owner = 0; owner < OWNERS; owner++)
        reached[owner] = owner != removed && (which == UNITED   ? owner == INTERPRETER
                                              : which == OTHERS ? owner != INTERPRETER && !m->weak[owner]
                                              : which == STRONG ? !m->weak[owner]
                                                                : true);
    spread(left, reached);
}

// Leaves of the edges of `in` those for which the condition is true, of `from` and `to`.
#define LEAVE(out, in, condition)                                                                                      \
    for (uint32_t from = 0; from < ALL; from++)                                                                        \
        for (uint32_t to = 0; to < ALL; to++)                                                                          \
            (out)[from][to] = (in)[from][to] && (condition);

// The edges that own something, by the rules of interpreter_reach.h and dominators.h.
static void settle(struct made *m, bool *held, bool *elsewhere, bool leads[ALL][ALL])
{
    bool edges[ALL][ALL], among[ALL], interpreters[ALL], strong[ALL];
    LEAVE(edges, m->leads, !counts(m, from))
    reach(m, edges, OTHERS, UINT32_MAX, among);
    LEAVE(edges, m->leads, from < OWNERS || counts(m, to) || (!counts(m, from) && !among[to]))
    reach(m, edges, UNITED, UINT32_MAX, held);
    LEAVE(edges, m->leads, !(held[to] && counts(m, to)))
    reach(m, edges, OTHERS, UINT32_MAX, elsewhere);
    LEAVE(leads, m->leads,
          !(held[to] && counts(m, to)) || (from < OWNERS ? from == INTERPRETER : held[from] || !elsewhere[from]))
    reach(m, leads, UNITED, UINT32_MAX, interpreters);
    LEAVE(leads, leads, interpreters[from] || !(interpreters[to] && counts(m, to)))
    reach(m, leads, STRONG, UINT32_MAX, strong);
    LEAVE(leads, leads, strong[from] || !strong[to])
}

static void check_tree(const struct made *m, const struct as_dominators *d, bool leads[ALL][ALL])
{
    bool plain[ALL], before[ALL], left[ALL];
    reach(m, (bool(*)[ALL])m->leads, EVERY, UINT32_MAX, plain);
    reach(m, leads, EVERY, UINT32_MAX, before);
    for (uint32_t vertex = 0; vertex < ALL; vertex++)
        CHECK((d->place[vertex] != 0) == plain[vertex] && plain[vertex] == before[vertex]);
    for (uint32_t vertex = 0; vertex < ALL; vertex++) {
        if (d->place[vertex] == 0)
            continue;
        reach(m, leads, EVERY, vertex, left);
        for (uint32_t other = 0; other < ALL; other++) {
            uint32_t place = d->place[other];
            while (place > d->place[vertex])
                place = d->parent[place];
            bool below = d->place[other] != 0 && place == d->place[vertex];
            CHECK(below == (before[other] && !left[other]));
        }
    }
}

int main(void)
{
    uint64_t dropped = 0;
    for (int round = 0; round < ROUNDS; round++) {
        static struct made m;
        static bool leads[ALL][ALL];
        bool held[ALL], elsewhere[ALL];
        struct as_precise p;
        struct as_dominators d;
        make(&m);
        settle(&m, held, elsewhere, leads);
        CHECK(as_precise_find(&p, &m.edges, &m.objects, &m.roots, NULL));
        for (uint32_t node = 0; node < NODES; node++) {
            CHECK(as_precise_has(&p, &m.objects, node) == (held[OWNERS + node] && m.of_node[node] != 0));
            CHECK(as_precise_drops(&p, node) == (elsewhere[OWNERS + node] && !held[OWNERS + node]));
            dropped += as_precise_drops(&p, node);
        }
        as_precise_free(&p);
        CHECK(as_dominators_find(&d, &m.edges, &m.objects, &m.roots, &m.owners, NULL));
        check_tree(&m, &d, leads);
        as_dominators_free(&d);
        unmake(&m);
    }
    CHECK(dropped > ROUNDS);
    return 0;
}
