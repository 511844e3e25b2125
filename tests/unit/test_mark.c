// SPDX-License-Identifier: MIT
// Sets of nodes: what is reached in random graphs, against a plain search.
#include "graph/mark.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_NODES = 3000 };

static uint32_t random_below(uint32_t limit)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state % limit);
}

struct made {
    struct as_index index;
    struct as_edges edges;
    bool reached[MOST_NODES];
};

static void make(struct made *m)
{
    *m = (struct made){.index.count = 1 + random_below(MOST_NODES)};
    struct as_edge_batch batch = {0};
    uint32_t count = m->index.count, mean = random_below(4);
    m->index.gaps = calloc(count / 64 + 1, sizeof *m->index.gaps);
    CHECK(as_edges_open(&m->edges, count, NULL));
    for (uint32_t node = 0; node < count; node++) {
        CHECK(as_edge_batch_begin(&batch, NULL));
        bool gap = random_below(10) == 0;
        m->index.gaps[node / 64] |= (uint64_t)gap << node % 64;
        for (uint32_t i = random_below(2 * mean + 1); !gap && i > 0; i--)
            CHECK(as_edge_batch_add(&batch, node, random_below(count), 0, true, NULL));
    }
    CHECK(as_edges_add(&m->edges, 0, &batch, NULL) && as_edges_close(&m->edges, NULL));
    as_edge_batch_free(&batch);
}

static void reach(struct made *m, uint32_t from)
{
    uint32_t queue[MOST_NODES], head = 0, tail = 0;
    if (m->reached[from] || as_index_is_gap(&m->index, from))
        return;
    m->reached[queue[tail++] = from] = true;
    for (; head < tail; head++)
        for (uint32_t i = as_edges_first(&m->edges, queue[head]); i < as_edges_end(&m->edges, queue[head]);
             i = as_edge_next(&m->edges, i)) {
            uint32_t to = as_edge_to(&m->edges, queue[head], i);
            if (!m->reached[to] && !as_index_is_gap(&m->index, to))
                m->reached[queue[tail++] = to] = true;
        }
}

static void check(const struct made *m, const struct as_marks *marks)
{
    uint32_t next = as_next_unmarked(marks, 0);
    for (uint32_t node = 0; node < m->index.count; node++) {
        bool gap = as_index_is_gap(&m->index, node);
        CHECK(as_marked(marks, node) == (gap || m->reached[node]));
        if (as_marked(marks, node))
            continue;
        CHECK(node == next);
        next = as_next_unmarked(marks, node + 1);
    }
    CHECK(next == m->index.count && as_next_unmarked(marks, next) == next);
}

int main(void)
{
    struct made *m = malloc(sizeof *m);
    for (int round = 0; round < 300; round++) {
        struct as_marks marks;
        struct as_error err;
        make(m);
        CHECK(as_marks_open(&marks, &m->index, &err));
        check(m, &marks);
        for (int start = 0; start < 3; start++) {
            for (uint32_t i = random_below(4); i > 0; i--) {
                uint32_t from = random_below(m->index.count);
                as_mark(&marks, from);
                reach(m, from);
            }
            as_marks_spread(&marks, &m->edges);
            check(m, &marks);
        }
        as_marks_free(&marks);
        free(m->index.gaps);
        as_edges_free(&m->edges);
    }
    free(m);
    return 0;
}
