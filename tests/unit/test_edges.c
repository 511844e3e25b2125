// SPDX-License-Identifier: MIT
// The packed edges of random graphs, against plain arrays: added in batches, read, and sieved.
#include "graph/edges.h"
#include "support/check.h"

#include <string.h>

enum { MOST_NODES = 1200, MOST_EDGES = 120000, MOST_DEGREE = 700, ROUNDS = 200 };

static uint32_t random_below(uint32_t limit)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % limit);
}

struct plain_edge {
    uint32_t to, place;
    bool begins;
};

struct plain {
    uint32_t nodes, limit; // an edge leads to a number below the limit
    bool near;             // most do so to a node beside their own
    uint32_t first[MOST_NODES + 1];
    struct plain_edge list[MOST_EDGES];
};

static struct plain plain;

static uint32_t degree(void)
{
    static const uint32_t most[] = {1, 3, 3, 20, 50, MOST_DEGREE};
    return random_below(most[random_below(sizeof most / sizeof *most)]);
}

// Places ascend. Some nodes are so large that an edge needs the fourth unit, or that it is not known which the last places are.
static void make_node(uint32_t node)
{
    uint32_t at = plain.first[node], place = 0;
    switch (random_below(16)) {
    case 0:
        place = AS_PLACE_FAR - random_below(80);
        break;
    case 1:
        place = AS_EDGE_FAR_PLACES - random_below(80);
        break;
    case 2:
        place = random_below(AS_PLACE_FAR);
        break;
    default:
        break;
    }
    for (uint32_t left = degree(); left > 0 && at < MOST_EDGES; left--) {
        place += random_below(random_below(4) == 0 ? 60 : 3);
        uint32_t beside = node + random_below(20);
        uint32_t to = plain.near && beside < plain.limit && random_below(9) > 0 ? beside : random_below(plain.limit);
        plain.list[at++] = (struct plain_edge){to, place < AS_PLACE_FAR ? place : AS_PLACE_FAR, random_below(2) == 0};
    }
    plain.first[node + 1] = at;
}

static void add_batch(struct as_edges *e, uint32_t from, uint32_t to)
{
    struct as_edge_batch b = {0};
    for (uint32_t node = from; node < to; node++) {
        CHECK(as_edge_batch_begin(&b, NULL));
        for (uint32_t i = plain.first[node]; i < plain.first[node + 1]; i++) {
            const struct plain_edge *p = &plain.list[i];
            uint64_t place = p->place < AS_PLACE_FAR ? p->place : AS_PLACE_FAR + (uint64_t)random_below(1 << 30);
            CHECK(as_edge_batch_add(&b, node, p->to, place, p->begins, NULL));
        }
    }
    CHECK(as_edges_add(e, from, &b, NULL));
    as_edge_batch_free(&b);
}

// Some nodes are in no batch, and have no edges then.
static void make(struct as_edges *e)
{
    plain.nodes = 1 + random_below(MOST_NODES);
    CHECK(as_edges_open(e, plain.nodes, NULL));
    plain.limit = plain.nodes;
    if (random_below(2) == 0) // as in a large graph
        plain.limit = UINT32_C(1) << (20 + random_below(11));
    plain.near = random_below(2) == 0;
    for (uint32_t node = 0, to; node < plain.nodes; node = to) {
        bool left_out = random_below(5) == 0;
        to = node + 1 + random_below(40);
        to = to < plain.nodes ? to : plain.nodes;
        for (uint32_t i = node; i < to; i++)
            if (left_out)
                plain.first[i + 1] = plain.first[i];
            else
                make_node(i);
        if (!left_out)
            add_batch(e, node, to);
        if (node > 0 && random_below(10) == 0)
            add_batch(e, random_below(node), to); // is there already
    }
    CHECK(as_edges_close(e, NULL));
}

static void check_lookups(const struct as_edges *e, uint32_t node)
{
    uint32_t place = random_below(AS_PLACE_FAR), edge = AS_NO_EDGE;
    if (plain.first[node] < plain.first[node + 1] && random_below(4) > 0)
        place = plain.list[plain.first[node] + random_below(plain.first[node + 1] - plain.first[node])].place;
    for (uint32_t i = plain.first[node]; i < plain.first[node + 1] && edge == AS_NO_EDGE; i++)
        edge = plain.list[i].place == place ? i : AS_NO_EDGE;
    bool begins = edge != AS_NO_EDGE && plain.list[edge].begins;
    uint32_t at = as_edges_first(e, node);
    for (uint32_t i = plain.first[node]; edge != AS_NO_EDGE && i < edge; i++)
        at = as_edge_next(e, at);
    CHECK(as_edge_of(e, node, place) == (edge == AS_NO_EDGE ? AS_NO_EDGE : at));
    CHECK(as_edge_link(e, node, place) == (begins ? plain.list[edge].to : UINT32_MAX));
}

static void check(const struct as_edges *e)
{
    uint32_t at = 0;
    for (uint32_t node = 0; node < plain.nodes; node++) {
        uint32_t first = at;
        CHECK(as_edges_first(e, node) == first);
        for (uint32_t i = plain.first[node]; i < plain.first[node + 1]; i++) {
            CHECK(as_edge_to(e, node, at) == plain.list[i].to && as_edge_place(e, at) == plain.list[i].place);
            CHECK(as_edge_begins(e, at) == plain.list[i].begins);
            at = as_edge_next(e, at);
        }
        CHECK(as_edges_end(e, node) == at);
        CHECK(as_edges_count(e, first, at) == plain.first[node + 1] - plain.first[node]);
        check_lookups(e, node);
    }
    CHECK(e->list.count == at);
}

struct sieving {
    uint32_t kept, next; // of the plain edges; the node from which on none has been asked for
    uint32_t one_in;     // so many edges are taken out
    uint32_t first[MOST_NODES + 1];
};

static uint32_t keep(void *context, struct as_edges *e, uint32_t node, uint32_t first, uint32_t end)
{
    struct sieving *s = context;
    CHECK(node >= s->next && first == as_edges_first(e, node) && end == as_edges_end(e, node));
    CHECK(as_edges_count(e, first, end) == plain.first[node + 1] - plain.first[node]);
    for (; s->next < node; s->next++)
        CHECK(plain.first[s->next] == plain.first[s->next + 1]);
    s->next = node + 1;
    uint32_t to = first, k = plain.first[node];
    bool all = random_below(2) == 0;
    for (uint32_t i = first, next; i < end; i = next, k++) {
        next = as_edge_next(e, i);
        if (all || random_below(s->one_in) != 0) {
            to = as_edge_move(e, i, to);
            plain.list[s->kept++] = plain.list[k];
        }
    }
    s->first[node + 1] = s->kept;
    return to;
}

static void sieve(struct as_edges *e)
{
    static struct sieving s;
    memset(&s, 0, sizeof s);
    s.one_in = 1 + random_below(5);
    CHECK(as_edges_sieve(e, keep, &s, NULL));
    for (uint32_t node = 0; node < plain.nodes; node++)
        plain.first[node + 1] = s.first[node + 1] > plain.first[node] ? s.first[node + 1] : plain.first[node];
}

// Where an edge gets one unit more, from each side.
static void test_units(void)
{
    static const uint32_t distances[] = {0, 1, 511, 512, 513, (1 << 24) - 1, 1 << 24, (1 << 24) + 1, 1 << 29};
    static const uint64_t places[] = {0,
                                      1,
                                      15,
                                      16,
                                      17,
                                      16383,
                                      16384,
                                      32767,
                                      32768,
                                      1 << 20,
                                      AS_PLACE_FAR - 1,
                                      AS_PLACE_FAR,
                                      AS_PLACE_FAR + 1,
                                      UINT64_C(1) << 40};
    const uint32_t node = 1 << 29;
    for (size_t i = 0; i < 2 * sizeof distances / sizeof *distances; i++)
        for (size_t k = 0; k < 2 * sizeof places / sizeof *places; k++) {
            struct as_edge_batch b = {0};
            bool ahead = i % 2, begins = k % 2, far;
            uint32_t distance = distances[i / 2] - (ahead && i / 2 == sizeof distances / sizeof *distances - 1);
            uint64_t place = places[k / 2];
            uint32_t to = ahead ? node + distance : node - distance;
            CHECK(as_edge_batch_add(&b, node, to, place, begins, NULL) && b.count == 1);
            struct as_edges e = {.list.items = b.list.items};
            CHECK(as_edge_to(&e, node, 0) == to && as_edge_begins(&e, 0) == begins);
            CHECK(as_edge_place(&e, 0) == (place < AS_PLACE_FAR ? place : AS_PLACE_FAR));
            far = place > 15 || distance > (1U << 24) - ahead;
            CHECK(b.list.count == (place > 16383 ? 4 : far ? 3 : distance > 512U - ahead ? 2 : 1));
            CHECK(as_edge_next(&e, 0) == b.list.count);
            as_edge_batch_free(&b);
        }
}

// Nodes that have as many edges in all as fit into a span, or one less or more; one of them has most.
static void test_full_spans(void)
{
    for (uint32_t total = UINT8_MAX - 2; total < UINT8_MAX + 4; total++)
        for (uint32_t most = 0; most < AS_EDGE_SPAN; most++) {
            struct as_edges e;
            plain.nodes = plain.limit = 2 * AS_EDGE_SPAN;
            for (uint32_t node = 0; node < plain.nodes; node++)
                plain.first[node + 1] =
                    plain.first[node] + (node % AS_EDGE_SPAN == most ? total - AS_EDGE_SPAN + 1 : 1);
            for (uint32_t i = 0; i < plain.first[plain.nodes]; i++)
                plain.list[i] = (struct plain_edge){random_below(plain.limit), 0, true};
            CHECK(as_edges_open(&e, plain.nodes, NULL));
            add_batch(&e, 0, plain.nodes);
            CHECK(as_edges_close(&e, NULL));
            for (uint32_t node = 0; node < plain.nodes; node++)
                CHECK(as_edges_first(&e, node) == plain.first[node] && as_edges_end(&e, node) == plain.first[node + 1]);
            as_edges_free(&e);
        }
}

int main(void)
{
    test_units();
    test_full_spans();
    for (int round = 0; round < ROUNDS; round++) {
        struct as_edges e;
        make(&e);
        check(&e);
        sieve(&e);
        check(&e);
        sieve(&e);
        check(&e);
        as_edges_free(&e);
    }
    return 0;
}
