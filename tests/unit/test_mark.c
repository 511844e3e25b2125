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
    *m = (struct made){.index.count = 1 + random_below(MOST_NODES), .edges.nodes = m->index.count};
    uint32_t count = m->index.count, mean = random_below(4);
    m->index.gaps = calloc(count / 64 + 1, sizeof *m->index.gaps);
    m->edges.nodes = count;
    m->edges.first = calloc(count + 1, sizeof *m->edges.first);
    m->edges.to.items = calloc((size_t)count * 8 + 1, sizeof *m->edges.to.items);
    for (uint32_t node = 0; node < count; node++) {
        m->edges.first[node] = (uint32_t)m->edges.to.count;
        bool gap = random_below(10) == 0;
        m->index.gaps[node / 64] |= (uint64_t)gap << node % 64;
        for (uint32_t i = random_below(2 * mean + 1); !gap && i > 0; i--)
            m->edges.to.items[m->edges.to.count++] = random_below(count);
    }
    m->edges.first[count] = (uint32_t)m->edges.to.count;
}

static void reach(struct made *m, uint32_t from)
{
    uint32_t queue[MOST_NODES], head = 0, tail = 0;
    if (m->reached[from] || as_index_is_gap(&m->index, from))
        return;
    m->reached[queue[tail++] = from] = true;
    for (; head < tail; head++)
        for (uint32_t i = m->edges.first[queue[head]]; i < m->edges.first[queue[head] + 1]; i++) {
            uint32_t to = m->edges.to.items[i];
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
        free(m->edges.first);
        free(m->edges.to.items);
    }
    free(m);
    return 0;
}
