// SPDX-License-Identifier: MIT
// The graph's parts on made heaps: which node an address leads to, and what a removal would free, each against the plain way to
// find it out.
#include "base/memory.h"
#include "graph/dominators.h"
#include "graph/index.h"
#include "graph/parallel.h"
#include "graph/typing_rules.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAPS = 12 };

static uint64_t random_below(uint64_t limit)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

struct interval {
    uint64_t start, end;
    bool gap;
    bool last; // of its heap's chunks
};

struct made {
    AS_VEC(uint64_t) boundaries;
    AS_VEC(struct interval) intervals; // in no order
};

// A heap of chunks and gaps: it begins with either, and ends with a gap or at a chunk's end.
static uint64_t make_heap(struct made *m, uint64_t start, size_t count)
{
    *as_vec_add(&m->boundaries, NULL) = start | AS_HEAP_BEGINS;
    bool gap = random_below(2);
    for (size_t i = 0; i < count; i++) {
        uint64_t size = 16 * (1 + random_below(random_below(10) == 0 ? 20000 : 12));
        *as_vec_add(&m->boundaries, NULL) = start | (gap ? AS_GAP : 0);
        *as_vec_add(&m->intervals, NULL) = (struct interval){start, start + size, gap, false};
        start += size;
        gap = !gap && random_below(3) == 0;
    }
    struct interval *last = &m->intervals.items[m->intervals.count - 1];
    if (last->gap && count > 1)
        last--; // a gap never follows a gap
    last->last = true;
    if (!m->intervals.items[m->intervals.count - 1].gap)
        *as_vec_add(&m->boundaries, NULL) = start | AS_GAP;
    return start;
}

// A chunk with a mapping of its own.
static uint64_t make_mapping(struct made *m, uint64_t start)
{
    start = (start + AS_SMALLEST_PAGE - 1) / AS_SMALLEST_PAGE * AS_SMALLEST_PAGE;
    uint64_t end = start + AS_SMALLEST_PAGE * (1 + random_below(40));
    *as_vec_add(&m->boundaries, NULL) = start | AS_HEAP_BEGINS;
    *as_vec_add(&m->boundaries, NULL) = start;
    *as_vec_add(&m->boundaries, NULL) = end | AS_GAP;
    *as_vec_add(&m->intervals, NULL) = (struct interval){start, end, false, true};
    return end;
}

// Slots of a runtime's, each of which begins at any multiple of AS_LATE.
static uint64_t make_slots(struct made *m, uint64_t start, size_t count)
{
    start = (start + 31) / 16 * 16 + AS_LATE * random_below(2);
    *as_vec_add(&m->boundaries, NULL) = start | AS_HEAP_BEGINS;
    for (size_t i = 0; i < count; i++) {
        uint64_t size = 32 + AS_LATE * random_below(20),
                 gap = random_below(3) == 0 ? 16 + AS_LATE * random_below(9) : 0;
        *as_vec_add(&m->boundaries, NULL) = start;
        *as_vec_add(&m->intervals, NULL) = (struct interval){start, start + size, false, i + 1 == count};
        start += size;
        if (gap == 0 || i + 1 == count)
            continue;
        *as_vec_add(&m->boundaries, NULL) = start | AS_GAP;
        *as_vec_add(&m->intervals, NULL) = (struct interval){start, start + gap, true, false};
        start += gap;
    }
    *as_vec_add(&m->boundaries, NULL) = start | AS_GAP;
    return (start + 31) / 16 * 16;
}

static const struct interval *plain_target(const struct made *m, uint64_t pointer)
{
    for (size_t i = 0; i < m->intervals.count; i++) {
        const struct interval *n = &m->intervals.items[i];
        bool behind = pointer >= n->end && pointer % AS_SMALLEST_PAGE < AS_HEADER && n->last;
        if (!n->gap && pointer - AS_HEADER >= n->start && pointer - AS_HEADER < n->end && !behind)
            return n;
    }
    return NULL;
}

static void check_pointer(const struct as_index *x, const struct made *m, uint64_t pointer)
{
    const struct interval *expected = plain_target(m, pointer);
    uint32_t node = as_index_target(x, pointer);
    CHECK((node == AS_NO_NODE) == (expected == NULL));
    if (expected)
        CHECK(as_index_address(x, node) == expected->start);
}

static void check_cursor(const struct as_index *x, const struct made *m)
{
    struct as_used_cursor c = as_used_begin(x);
    const struct as_used_chunk *chunk = &c.chunk;
    uint64_t chunks = 0, bytes = 0, before = 0;
    while (as_used_next(&c)) {
        CHECK(chunk->address > before || before == 0);
        CHECK(as_index_target(x, chunk->address + AS_HEADER) == chunk->node);
        const struct interval *n = plain_target(m, chunk->address + AS_HEADER);
        CHECK(n && n->start == chunk->address && n->end - n->start == chunk->size);
        before = chunk->address;
        chunks++;
        bytes += chunk->size;
    }
    CHECK(chunks == x->chunks && bytes == x->chunk_bytes);
    for (size_t i = 0; i < m->intervals.count; i++) {
        chunks -= !m->intervals.items[i].gap;
        bytes -= m->intervals.items[i].gap ? 0 : m->intervals.items[i].end - m->intervals.items[i].start;
    }
    CHECK(chunks == 0 && bytes == 0);
}

// From any 16 bytes on, what begins in or behind them: each with the number and at the address that it has for a pointer.
static void check_nodes_from_anywhere(const struct as_index *x)
{
    for (size_t i = 0; i < x->extents.count; i++) {
        const struct as_extent *e = &x->extents.items[i];
        uint64_t from = as_align_down(e->start + random_below(e->end - e->start), AS_ALIGNMENT);
        struct as_node_cursor some = as_nodes_of(x, from, e->end), all = as_nodes_of(x, e->start, e->end);
        uint32_t node, expected;
        uint64_t address, at;
        while (as_node_next(&all, &expected, &at)) {
            CHECK(as_index_node_at(x, at) == expected);
            if (at >= from)
                CHECK(as_node_next(&some, &node, &address) && node == expected && address == at);
        }
        CHECK(!as_node_next(&some, &node, &address));
    }
}

// Every n-th chunk alone, and none, by themselves and as they come among all.
static void check_wanted(const struct as_index *x)
{
    static const uint32_t every[] = {1, 3, 70, 1000, UINT32_MAX};
    for (size_t i = 0; i < sizeof every / sizeof *every; i++) {
        uint8_t *wanted = calloc(x->count + 1, 1);
        for (uint32_t node = every[i] / 2; node < x->count; node += every[i])
            wanted[node] = !as_index_is_gap(x, node);
        struct as_used_cursor all = as_used_begin(x), some = all;
        const struct as_used_chunk *chunk = &all.chunk, *found = &some.chunk;
        while (as_used_next(&all))
            CHECK(!wanted[chunk->node] || (as_used_next_of(&some, wanted) && found->node == chunk->node &&
                                           found->address == chunk->address && found->size == chunk->size));
        CHECK(!as_used_next_of(&some, wanted));
        free(wanted);
    }
}

// Several at a time, of parts of the nodes: as one at a time, of all.
static void check_some(const struct as_index *x, uint32_t count)
{
    struct as_used_cursor all = as_used_begin(x);
    const struct as_used_chunk *chunk = &all.chunk;
    struct as_used_chunk chunks[AS_USED_SOME];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t from = (uint32_t)((uint64_t)x->count * i / count),
                 to = (uint32_t)((uint64_t)x->count * (i + 1) / count);
        if (from == to)
            continue;
        struct as_used_cursor part = as_used_from(x, from);
        for (size_t found; (found = as_used_some(&part, to, chunks)) > 0;)
            for (size_t k = 0; k < found; k++)
                CHECK(as_used_next(&all) && chunks[k].node == chunk->node && chunk->node < to &&
                      chunks[k].address == chunk->address && chunks[k].size == chunk->size);
        CHECK(as_used_some(&part, to, chunks) == 0);
    }
    CHECK(!as_used_next(&all));
}

// The size of each chunk, and of gaps none, whether few are asked for or all.
static void check_sizes(const struct as_index *x, const struct made *m)
{
    struct as_typing_sizes few = {.index = x}, many = {.index = x};
    for (uint32_t node = 0; node < x->count; node++) {
        const struct interval *n = plain_target(m, as_index_address(x, node) + AS_HEADER);
        uint32_t units = as_index_is_gap(x, node) || !n ? 0 : (uint32_t)((n->end - n->start) / AS_ALIGNMENT);
        few.asked = 0;
        CHECK(as_typing_units(&few, node) == units && !few.units);
        CHECK(as_typing_units(&many, node) == units);
    }
    as_typing_sizes_free(&few);
    as_typing_sizes_free(&many);
}

// Each node is in one part, and many nodes are in as many parts as there are processors.
static void test_parts(void)
{
    for (uint64_t nodes = 0; nodes < UINT32_MAX; nodes = nodes * 3 + 1) {
        struct as_part parts[AS_MOST_PARTS];
        uint32_t count = as_parts_cut((uint32_t)nodes, parts), next = 0;
        CHECK(count >= 1 && count <= AS_MOST_PARTS);
        for (uint32_t i = 0; i < count; i++) {
            CHECK(parts[i].from == next && parts[i].to >= next);
            next = parts[i].to;
        }
        CHECK(next == nodes);
        CHECK(nodes < 1000000 || count > 1 || sysconf(_SC_NPROCESSORS_ONLN) == 1);
    }
}

// Heaps that touch each other, that are near, and that are far away, in no order.
static void test_index(void)
{
    for (int round = 0; round < 40; round++) {
        struct made m = {0};
        struct as_index x;
        uint64_t at[2] = {UINT64_C(0x555500000000), UINT64_C(0x7f0000000000)};
        for (int heap = 0; heap < HEAPS; heap++) {
            uint64_t *place = &at[random_below(2)];
            uint64_t distance = random_below(3);
            *place += distance == 0 ? 0 : 16 * random_below(distance == 1 ? 10000 : UINT64_C(1) << 34);
            if (random_below(3) == 0)
                *place = make_mapping(&m, *place);
            else if (random_below(3) == 0)
                *place = make_slots(&m, *place, 1 + random_below(300));
            else
                *place = make_heap(&m, *place, 1 + random_below(50));
        }
        CHECK(as_index_build(&x, m.boundaries.items, m.boundaries.count, NULL, NULL));
        for (size_t i = 0; i < m.intervals.count; i++)
            for (int k = -2; k < 4; k++) {
                check_pointer(&x, &m, m.intervals.items[i].start + (uint64_t)(8 * k));
                check_pointer(&x, &m, m.intervals.items[i].end + (uint64_t)(8 * k));
            }
        for (int i = 0; i < 200; i++)
            check_pointer(&x, &m, at[random_below(2)] - random_below(1 << 20));
        check_cursor(&x, &m);
        check_nodes_from_anywhere(&x);
        check_wanted(&x);
        check_sizes(&x, &m);
        for (uint32_t count = 1; count < 6; count++)
            check_some(&x, count);
        as_index_free(&x);
        as_vec_free(&m.boundaries);
        as_vec_free(&m.intervals);
    }
}

static void test_empty_index(void)
{
    const uint64_t none[] = {UINT64_C(0x1000) | AS_HEAP_BEGINS, UINT64_C(0x1000) | AS_GAP};
    struct as_index x;
    CHECK(as_index_build(&x, none, 2, NULL, NULL));
    CHECK(x.count == 0 && as_index_target(&x, 0x1010) == AS_NO_NODE && as_index_target(&x, 0) == AS_NO_NODE);
    as_index_free(&x);
    CHECK(as_index_build(&x, NULL, 0, NULL, NULL) && as_index_address(&x, 0) == AS_UNKNOWN);
    as_index_free(&x);
}

// A chunk of a heap that ends with a page by chance was made for what it holds, and for nothing smaller.
static void test_chunk_that_ends_with_a_page(void)
{
    const uint64_t chunks[] = {UINT64_C(0x10000) | AS_HEAP_BEGINS, UINT64_C(0x10b00), UINT64_C(0x11000),
                               UINT64_C(0x12000) | AS_GAP};
    struct as_index x;
    uint64_t usable;
    CHECK(as_index_build(&x, chunks, 4, NULL, NULL));
    uint32_t node = as_index_node_at(&x, 0x10b00);
    CHECK(node != AS_NO_NODE && as_index_is_made_for(&x, node, 0x10b00, 0x4f8, 4096, &usable));
    CHECK(!as_index_is_made_for(&x, node, 0x10b00, 0x400, 4096, &usable));
    as_index_free(&x);
}

enum { NODES = 24, OWNERS = 5 };

struct made_graph {
    uint32_t first[NODES + 1], to[NODES * NODES]; // the edges
    struct as_edges edges;                        // the same, until a tree has taken them
    struct as_roots roots;
    struct as_owners owners;
};

static void make_graph(struct made_graph *g)
{
    uint32_t most = 1 + (uint32_t)random_below(3);
    struct as_edge_batch batch = {0};
    CHECK(as_edges_open(&g->edges, NODES, NULL));
    for (uint32_t node = 0; node < NODES; node++) {
        CHECK(as_edge_batch_begin(&batch, NULL));
        g->first[node + 1] = g->first[node];
        for (uint64_t i = random_below(most + 1); i > 0; i--) {
            uint32_t to = g->to[g->first[node + 1]++] = (uint32_t)random_below(NODES);
            CHECK(as_edge_batch_add(&batch, node, to, 0, true, NULL));
        }
    }
    CHECK(as_edges_add(&g->edges, 0, &batch, NULL) && as_edges_close(&g->edges, NULL));
    as_edge_batch_free(&batch);
    for (uint32_t owner = 0; owner < OWNERS; owner++) {
        struct as_root_source *source = as_vec_add(&g->roots.sources, NULL);
        source->kind = random_below(3) == 0 ? AS_ROOT_STACK : AS_ROOT_GLOBAL;
        struct as_owner *o = as_vec_add(&g->owners.list, NULL);
        *o = (struct as_owner){.source = owner, .first = (uint32_t)g->roots.list.count};
        for (o->count = 0; o->count < 1 + random_below(2); o->count++)
            *as_vec_add(&g->roots.list, NULL) =
                (struct as_root){.address = 0x1000, .node = (uint32_t)random_below(NODES), .source = owner & INT32_MAX};
    }
}

static bool is_weak(const struct made_graph *g, uint32_t owner)
{
    return as_root_is_weak(g->roots.sources.items[owner].kind);
}

// What the strong (or else the weak) owners, or `only` one of them, reach without vertex `removed`, and without the nodes in `avoided`.
static void reach(const struct made_graph *g, bool weak, uint32_t only, uint32_t removed, const bool *avoided,
                  bool *out)
{
    uint32_t stack[NODES], depth = 0;
    memset(out, 0, NODES);
    for (uint32_t owner = 0; owner < OWNERS; owner++) {
        const struct as_owner *o = &g->owners.list.items[owner];
        bool left_out = owner == removed || is_weak(g, owner) != weak || (only != UINT32_MAX && owner != only);
        for (uint32_t i = o->first; !left_out && i < o->first + o->count; i++) {
            uint32_t node = g->roots.list.items[i].node;
            if (!out[node] && !avoided[node] && OWNERS + node != removed) {
                out[node] = true;
                stack[depth++] = node;
            }
        }
    }
    while (depth > 0) {
        uint32_t node = stack[--depth];
        for (uint32_t i = g->first[node]; i < g->first[node + 1]; i++) {
            uint32_t to = g->to[i];
            if (!out[to] && !avoided[to] && OWNERS + to != removed) {
                out[to] = true;
                stack[depth++] = to;
            }
        }
    }
}

static bool is_below(const struct as_dominators *d, uint32_t place, uint32_t above)
{
    while (place > above)
        place = d->parent[place];
    return place == above;
}

static void free_graph(struct made_graph *g)
{
    as_edges_free(&g->edges);
    as_vec_free(&g->roots.sources);
    as_vec_free(&g->roots.list);
    as_owners_free(&g->owners);
}

static uint64_t size_of(uint32_t node)
{
    return 16 * (1 + node % 7);
}

// Has a node several owners?
static bool is_shared(const struct as_dominators *d, uint32_t node)
{
    uint32_t place = d->place[OWNERS + node];
    while (d->parent[place] != 0)
        place = d->parent[place];
    return place != 0 && d->vertex[place] >= OWNERS;
}

static void add_up(struct as_dominators *d)
{
    d->retained = as_memory_map((d->count + 1) * sizeof *d->retained, "sums", NULL);
    for (uint32_t place = d->count - 1; place > 0; place--) {
        d->retained[place] += d->vertex[place] >= d->owners ? size_of(d->vertex[place] - d->owners) : 0;
        d->retained[d->parent[place]] += d->retained[place];
    }
}

// What each owner leads to of the nodes that have several.
static void test_several(void)
{
    static const bool none[NODES];
    const struct as_objects no_objects = {0};
    for (int round = 0; round < 3000; round++) {
        struct made_graph g = {0};
        struct as_dominators d;
        struct as_several s;
        bool strong[NODES], reached[NODES];
        uint64_t bytes = 0, found = 0;
        uint32_t owners = 0;
        make_graph(&g);
        CHECK(as_dominators_find(&d, &g.edges, &no_objects, &g.roots, &g.owners, NULL));
        add_up(&d);
        CHECK(as_several_find(&s, &d, NULL));
        reach(&g, false, UINT32_MAX, UINT32_MAX, none, strong);
        for (uint32_t node = 0; node < NODES; node++)
            bytes += is_shared(&d, node) ? size_of(node) : 0;
        CHECK(s.bytes == bytes);
        for (uint32_t owner = 0; owner < OWNERS; owner++) {
            uint64_t leads = 0;
            reach(&g, is_weak(&g, owner), owner, UINT32_MAX, is_weak(&g, owner) ? strong : none, reached);
            for (uint32_t node = 0; node < NODES; node++)
                leads += reached[node] && is_shared(&d, node) ? size_of(node) : 0;
            owners += leads > 0;
            for (uint32_t i = 0; i < s.count; i++) {
                CHECK(s.leading[i].owner != owner || s.leading[i].bytes == leads);
                CHECK(i == 0 || s.leading[i].bytes <= s.leading[i - 1].bytes);
                found += s.leading[i].owner == owner;
            }
        }
        CHECK(s.owners == owners && found == owners);
        as_dominators_free(&d);
        free_graph(&g);
    }
}

// Adds an owner with a root for each node.
static void add_owner(struct made_graph *g, const uint32_t *nodes, uint32_t count)
{
    uint32_t number = (uint32_t)g->owners.list.count;
    as_vec_add(&g->roots.sources, NULL)->kind = AS_ROOT_GLOBAL;
    *as_vec_add(&g->owners.list, NULL) =
        (struct as_owner){.source = number, .first = (uint32_t)g->roots.list.count, .count = count};
    for (uint32_t i = 0; i < count; i++)
        *as_vec_add(&g->roots.list, NULL) =
            (struct as_root){.address = 0x1000, .node = nodes[i], .source = number & INT32_MAX};
}

// More owners lead there than are told of: two to a small node alone, which leads to a large one; all others to one that is less small.
static void test_who_leads_to_most(void)
{
    enum { OTHERS = 3 * AS_MOST_LEADING, SMALL = 0, MIDDLE = 1, LARGE = 3 };
    const struct as_objects no_objects = {0};
    struct made_graph g = {0};
    struct as_edge_batch batch = {0};
    struct as_dominators d;
    struct as_several s;
    CHECK(as_edges_open(&g.edges, NODES, NULL));
    for (uint32_t node = 0; node < NODES; node++) {
        CHECK(as_edge_batch_begin(&batch, NULL));
        if (node != MIDDLE && node + 1 < NODES)
            CHECK(as_edge_batch_add(&batch, node, node == SMALL ? LARGE : node + 1, 0, true, NULL));
    }
    CHECK(as_edges_add(&g.edges, 0, &batch, NULL) && as_edges_close(&g.edges, NULL));
    as_edge_batch_free(&batch);
    for (uint32_t i = 0; i < OTHERS; i++)
        add_owner(&g, (uint32_t[]){MIDDLE}, 1);
    add_owner(&g, (uint32_t[]){SMALL}, 1);
    add_owner(&g, (uint32_t[]){SMALL}, 1);
    add_owner(&g, (uint32_t[]){LARGE}, 1);
    CHECK(as_dominators_find(&d, &g.edges, &no_objects, &g.roots, &g.owners, NULL));
    add_up(&d);
    CHECK(as_several_find(&s, &d, NULL));
    uint64_t large = 0;
    for (uint32_t node = LARGE; node < NODES; node++)
        large += size_of(node);
    CHECK(s.owners == OTHERS + 3 && s.count == AS_MOST_LEADING);
    CHECK(s.bytes == size_of(SMALL) + size_of(MIDDLE) + large);
    CHECK(s.leading[0].owner == OTHERS && s.leading[0].bytes == size_of(SMALL) + large);
    CHECK(s.leading[1].owner == OTHERS + 1 && s.leading[1].bytes == size_of(SMALL) + large);
    CHECK(s.leading[2].owner == OTHERS + 2 && s.leading[2].bytes == large);
    CHECK(s.leading[3].bytes == size_of(MIDDLE));
    as_dominators_free(&d);
    free_graph(&g);
}

static void test_dominators(void)
{
    static const bool none[NODES];
    const struct as_objects no_objects = {0};
    for (int round = 0; round < 3000; round++) {
        struct made_graph g = {0};
        struct as_dominators d;
        bool strong[NODES], weak[NODES], left[NODES];
        make_graph(&g);
        CHECK(as_dominators_find(&d, &g.edges, &no_objects, &g.roots, &g.owners, NULL));
        reach(&g, false, UINT32_MAX, UINT32_MAX, none, strong);
        reach(&g, true, UINT32_MAX, UINT32_MAX, strong, weak);
        for (uint32_t node = 0; node < NODES; node++)
            CHECK((d.place[OWNERS + node] != 0) == (strong[node] || weak[node]));
        for (uint32_t vertex = 0; vertex < OWNERS + NODES; vertex++) {
            uint32_t place = d.place[vertex];
            if (place == 0)
                continue;
            bool of_weak = vertex < OWNERS ? is_weak(&g, vertex) : weak[vertex - OWNERS];
            reach(&g, of_weak, UINT32_MAX, vertex, of_weak ? strong : none, left);
            for (uint32_t node = 0; node < NODES; node++) {
                bool lost = (of_weak ? weak : strong)[node] && !left[node];
                bool below = d.place[OWNERS + node] != 0 && is_below(&d, d.place[OWNERS + node], place);
                CHECK(below == lost);
            }
        }
        as_dominators_free(&d);
        free_graph(&g);
    }
}

int main(void)
{
    test_parts();
    test_index();
    test_empty_index();
    test_chunk_that_ends_with_a_page();
    test_dominators();
    test_several();
    test_who_leads_to_most();
    return 0;
}
