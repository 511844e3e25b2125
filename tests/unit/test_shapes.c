// SPDX-License-Identifier: MIT
// Shapes on made heaps: chunks full of random pointers to each other get no name, and a tree, a list, a ring and a chain do; a single
// wrong link takes the name from all of them.
#include "base/memory.h"
#include "graph/shapes.h"
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { NODES = 400, SIZE = 64, WORDS = 7, ROUNDS = 300 };
static const uint64_t HEAP = UINT64_C(0x10000);

static uint64_t random_below(uint64_t limit)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % limit;
}

// A heap of chunks of one size, each of which has some words that lead to others.
struct made {
    uint64_t words[NODES][WORDS]; // 0: no pointer
    struct as_index index;
    struct as_patterns patterns;
    struct as_edges edges;
    struct as_vtables vtables;
};

static uint64_t memory_of(uint32_t node)
{
    return HEAP + (uint64_t)node * SIZE + AS_HEADER;
}

static void link_to(struct made *m, uint32_t node, uint32_t place, uint32_t to)
{
    m->words[node][place] = memory_of(to);
}

static void make_edges(struct made *m)
{
    struct as_edge_batch batch = {0};
    CHECK(as_edges_open(&m->edges, m->index.count, NULL));
    for (uint32_t node = 0; node < NODES; node++) {
        CHECK(as_edge_batch_begin(&batch, NULL));
        for (uint32_t place = 0; place < WORDS; place++) {
            bool begins = false;
            uint32_t to = as_index_pointer(&m->index, m->words[node][place], &begins);
            if (to != AS_NO_NODE && to != node)
                CHECK(as_edge_batch_add(&batch, node, to, place, begins, NULL));
        }
    }
    CHECK(as_edges_add(&m->edges, 0, &batch, NULL) && as_edges_close(&m->edges, NULL));
    as_edge_batch_free(&batch);
}

// Finds the shapes of what has been linked.
static void find(struct made *m)
{
    uint64_t boundaries[NODES + 2] = {HEAP | AS_HEAP_BEGINS};
    for (uint32_t node = 0; node < NODES; node++)
        boundaries[1 + node] = HEAP + (uint64_t)node * SIZE;
    boundaries[NODES + 1] = (HEAP + (uint64_t)NODES * SIZE) | AS_GAP;
    CHECK(as_index_build(&m->index, boundaries, NODES + 2, NULL, NULL));
    m->vtables.begins = as_memory_map((m->index.count + 1) * sizeof *m->vtables.begins, "vtables", NULL);
    CHECK(as_patterns_open(&m->patterns, &m->index, &m->vtables, AS_SMALLEST_PAGE, NULL));
    CHECK(as_vec_add(&m->vtables.list, NULL));
    for (uint32_t node = 0; node < NODES; node++)
        for (uint32_t place = 0; place < WORDS; place++) {
            bool begins = false;
            uint32_t to = as_index_pointer(&m->index, m->words[node][place], &begins);
            struct as_beside beside = {memory_of(node) + place * sizeof(uint64_t),
                                       (const uint8_t *)&m->words[node][place], place, WORDS - place};
            if (to != AS_NO_NODE && begins)
                as_pattern_match(&m->patterns, to, &beside);
        }
    make_edges(m);
    CHECK(as_shapes_find(&m->patterns, &m->edges, &m->vtables, NULL, NULL));
}

static void forget(struct made *m)
{
    as_memory_unmap(m->vtables.begins, (m->index.count + 1) * sizeof *m->vtables.begins);
    as_vec_free(&m->vtables.list);
    as_patterns_close(&m->patterns);
    as_edges_free(&m->edges);
    as_index_free(&m->index);
    memset(m, 0, sizeof *m);
}

static uint32_t count(const struct made *m, enum as_shape shape)
{
    uint32_t found = 0;
    for (uint32_t node = 0; node < NODES; node++)
        found += m->patterns.shape[node] == shape;
    return found;
}

static uint32_t named(const struct made *m)
{
    return NODES - count(m, AS_SHAPE_NONE);
}

// A perfect tree of `size` nodes from `root` on; a node's children are numbered as in a heap.
static void make_tree(struct made *m, uint32_t size, uint32_t up, uint32_t left, uint32_t right)
{
    for (uint32_t node = 0; node < size; node++) {
        uint32_t children[2] = {2 * node + 1, 2 * node + 2}, places[2] = {left, right};
        for (int i = 0; i < 2; i++)
            if (children[i] < size) {
                link_to(m, node, places[i], children[i]);
                link_to(m, children[i], up, node);
            }
    }
}

static void make_list(struct made *m, uint32_t size, uint32_t next, uint32_t previous)
{
    for (uint32_t node = 0; node + 1 < size; node++) {
        link_to(m, node, next, node + 1);
        link_to(m, node + 1, previous, node);
    }
}

static void test_noise(void)
{
    static struct made m;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t dense = 1 + random_below(6);
        for (uint32_t node = 0; node < NODES; node++)
            for (uint32_t place = 0; place < WORDS; place++) {
                uint32_t near = (node + 1 + (uint32_t)random_below(3)) % NODES;
                uint32_t to = random_below(2) ? near : (uint32_t)random_below(NODES);
                if (random_below(7) < dense)
                    m.words[node][place] = memory_of(to) + (random_below(4) == 0 ? 8 : 0);
                else if (random_below(3) == 0)
                    m.words[node][place] = random_below(100);
            }
        find(&m);
        CHECK(named(&m) == 0);
        forget(&m);
    }
}

// Every way to link one word of a made structure elsewhere: none leaves a name on the node itself that is not its own.
static void test_trees(void)
{
    static const uint32_t layouts[][3] = {{1, 2, 3}, {2, 0, 1}};
    static struct made m;
    for (size_t i = 0; i < 2; i++) {
        const uint32_t *l = layouts[i];
        for (uint32_t size = 3; size < 100; size += 7) {
            make_tree(&m, size, l[0], l[1], l[2]);
            find(&m);
            CHECK(count(&m, AS_SHAPE_TREE_NODE) == size && named(&m) == size);
            forget(&m);
        }
        for (uint32_t node = 1; node < 63; node++) { // a node that does not lead back to its parent
            make_tree(&m, 63, l[0], l[1], l[2]);
            link_to(&m, node, l[0], 100);
            find(&m);
            CHECK(m.patterns.shape[node] != AS_SHAPE_TREE_NODE || node == 0);
            CHECK(m.patterns.shape[0] != AS_SHAPE_TREE_NODE);
            forget(&m);
        }
        make_tree(&m, 63, l[0], l[1], l[2]); // two nodes share a child
        link_to(&m, 40, l[1], 62);
        find(&m);
        CHECK(m.patterns.shape[0] != AS_SHAPE_TREE_NODE);
        forget(&m);
        make_tree(&m, 63, l[0], l[1], l[2]); // children that lead to each other are not of a binary tree
        for (uint32_t node = 1; node + 1 < 63; node += 2)
            link_to(&m, node, 5, node + 1);
        find(&m);
        CHECK(count(&m, AS_SHAPE_TREE_NODE) == 0);
        forget(&m);
        for (uint32_t node = 0; node < 40;
             node++) { // too deep for a balanced tree: all but one child of each is a leaf
            link_to(&m, 2 * node, l[1], 2 * node + 1);
            link_to(&m, 2 * node + 1, l[0], 2 * node);
            link_to(&m, 2 * node, l[2], 2 * node + 2);
            link_to(&m, 2 * node + 2, l[0], 2 * node);
        }
        find(&m);
        CHECK(count(&m, AS_SHAPE_TREE_NODE) == 0);
        forget(&m);
    }
}

static void test_lists(void)
{
    static struct made m;
    for (uint32_t size = 1; size < 50; size++) {
        make_list(&m, size, 0, 1);
        find(&m);
        CHECK(count(&m, AS_SHAPE_LIST_NODE) == (size < 3 ? 0 : size) && named(&m) == (size < 3 ? 0 : size));
        forget(&m);
        make_list(&m, size, 2, 1);
        find(&m);
        CHECK(count(&m, AS_SHAPE_LIST_NODE) == (size < 3 ? 0 : size));
        forget(&m);
        make_list(&m, size, 0, 1);
        link_to(&m, size - 1, 0, 0);
        link_to(&m, 0, 1, size - 1);
        find(&m);
        CHECK(count(&m, AS_SHAPE_RING) == (size < 3 ? 0 : size) && named(&m) == (size < 3 ? 0 : size));
        forget(&m);
    }
    make_list(&m, 30, 0, 1);
    link_to(&m, 29, 0, 10); // its last node leads back into it: neither a list nor a ring
    find(&m);
    CHECK(named(&m) == 0);
    forget(&m);
}

static void test_chains(void)
{
    static struct made m;
    for (uint32_t size = 1; size < 30; size++) {
        for (uint32_t node = 0; node + 1 < size; node++)
            link_to(&m, node, 3, node + 1);
        find(&m);
        CHECK(count(&m, AS_SHAPE_SINGLE) == (size < 8 ? 0 : size) && named(&m) == (size < 8 ? 0 : size));
        forget(&m);
    }
    for (int fault = 0; fault < 3; fault++) {
        for (uint32_t node = 0; node < 20; node++)
            link_to(&m, node, 3, node + 1);
        if (fault == 0)
            link_to(&m, 100, 2, 10); // somebody else leads to one of them
        else if (fault == 1)
            link_to(&m, 10, 2, 200); // one leads to two
        else
            m.words[10][3] = 0, link_to(&m, 10, 2, 11); // by another word
        find(&m);
        CHECK(named(&m) == 0);
        forget(&m);
    }
}

// Seven buckets, and a chain of `size` nodes from the third chunk on: the header is the first, the array the second.
static void make_table(struct made *m, uint32_t size, uint64_t elements)
{
    const uint64_t table[5] = {memory_of(1), 7, memory_of(2), elements,
                               UINT64_C(0x3f800000)}; // at most one for each bucket
    memcpy(m->words[0], table, sizeof table);
    for (uint32_t i = 0; i < size; i++) {
        if (i % 2 == 0 && i + 1 < size)
            link_to(m, 1, i / 2, 2 + i);
        if (i + 1 < size)
            link_to(m, 2 + i, 0, 3 + i);
        m->words[2 + i][1] = i; // a key
    }
}

static void test_tables(void)
{
    static struct made m;
    for (uint32_t size = 1; size < 14; size++) {
        for (uint64_t elements = 1; elements < 16; elements++) {
            make_table(&m, size, elements);
            find(&m);
            CHECK(count(&m, AS_SHAPE_TABLE) == (elements == size));
            CHECK(count(&m, AS_SHAPE_TABLE_NODE) == (elements == size ? size : 0));
            forget(&m);
        }
    }
    make_table(&m, 10, 10); // two buckets lead to one node
    link_to(&m, 1, 6, 4);
    find(&m);
    CHECK(count(&m, AS_SHAPE_TABLE) == 0 && count(&m, AS_SHAPE_TABLE_NODE) == 0);
    forget(&m);
    make_table(&m, 10, 10);
    m.words[0][1] = 20; // more buckets than the array has room for
    find(&m);
    CHECK(count(&m, AS_SHAPE_TABLE) == 0 && count(&m, AS_SHAPE_TABLE_NODE) == 0);
    forget(&m);
    make_table(&m, 10, 10);
    m.words[0][4] = 1; // no load
    find(&m);
    CHECK(count(&m, AS_SHAPE_TABLE) == 0 && count(&m, AS_SHAPE_TABLE_NODE) == 0);
    forget(&m);
}

// A chain through so many chunks that several threads inspect them: each leads to the next, the last to none.
static void test_parts(void)
{
    enum { MANY = 40000, LINK = 3 };
    uint64_t *boundaries = calloc(MANY + 2, sizeof *boundaries);
    struct made m = {0};
    struct as_edge_batch batch = {0};
    boundaries[0] = HEAP | AS_HEAP_BEGINS;
    for (uint32_t node = 0; node <= MANY; node++)
        boundaries[1 + node] = (HEAP + (uint64_t)node * SIZE) | (node == MANY ? AS_GAP : 0);
    CHECK(as_index_build(&m.index, boundaries, MANY + 2, NULL, NULL));
    m.vtables.begins = as_memory_map((m.index.count + 1) * sizeof *m.vtables.begins, "vtables", NULL);
    CHECK(as_patterns_open(&m.patterns, &m.index, &m.vtables, AS_SMALLEST_PAGE, NULL));
    CHECK(as_vec_add(&m.vtables.list, NULL) && as_edges_open(&m.edges, m.index.count, NULL));
    for (uint32_t node = 0; node < MANY; node++) {
        CHECK(as_edge_batch_begin(&batch, NULL));
        if (node + 1 < MANY)
            CHECK(as_edge_batch_add(&batch, node, node + 1, LINK, true, NULL));
    }
    CHECK(as_edges_add(&m.edges, 0, &batch, NULL) && as_edges_close(&m.edges, NULL));
    CHECK(as_shapes_find(&m.patterns, &m.edges, &m.vtables, NULL, NULL));
    for (uint32_t node = 0; node < MANY; node++)
        CHECK(m.patterns.shape[node] == AS_SHAPE_SINGLE);
    as_edge_batch_free(&batch);
    forget(&m);
    free(boundaries);
}

// Two arrays of `limit` words, one behind the other; `used` words of the second lie before its end.
static void match_array(uint64_t used, uint64_t limit)
{
    uint64_t size = as_align_up(limit * sizeof(uint64_t) + sizeof(uint64_t), AS_ALIGNMENT),
             begin = HEAP + size + AS_HEADER;
    const uint64_t boundaries[] = {HEAP | AS_HEAP_BEGINS, HEAP, HEAP + size, (HEAP + 2 * size) | AS_GAP};
    const uint64_t words[5] = {begin, begin + used * sizeof(uint64_t), begin + limit * sizeof(uint64_t)};
    const struct as_beside beside = {HEAP, (const uint8_t *)words, 0, 3};
    struct as_index x;
    struct as_patterns p;
    uint16_t begins[3] = {0};
    const struct as_vtables v = {.begins = begins};
    CHECK(as_index_build(&x, boundaries, 4, NULL, NULL) && as_patterns_open(&p, &x, &v, AS_SMALLEST_PAGE, NULL));
    as_pattern_match(&p, 1, &beside);
    CHECK(as_pattern_of(&p, 1) == AS_PATTERN_ARRAY && as_pattern_of(&p, 0) == AS_PATTERN_NONE);
    CHECK(as_pattern_used(&p, 1) == used && as_pattern_used(&p, 0) == 0);
    CHECK(as_pattern_spare(&p, 1) == (limit + 1) % 2 && as_pattern_spare(&p, 0) == 0);
    as_patterns_close(&p);
    as_index_free(&x);
}

// How many words of an array are used is known, however many they are.
static void test_arrays(void)
{
    for (uint64_t used = 1; used < 5000; used++)
        match_array(used, used + random_below(3));
    match_array(100000, 500001);
}

// The words beside a pointer tell of a text of one length, and the chunk begins with one of another: it is none.
static void test_lengths_of_texts(void)
{
    enum { LENGTH = 20, REQUEST = 304, USABLE = 312 }; // as large as other bytes than a text may be, too
    for (uint32_t begins = LENGTH - 1; begins <= LENGTH + 1; begins++)
        for (int bytes = 0; bytes < 2; bytes++) {
            uint8_t text[REQUEST] = {0}, shape = AS_SHAPE_NONE;
            uint16_t of_node = 0, its_begin = 0;
            struct as_patterns p = {.of_node = &of_node, .begins = &its_begin, .shape = &shape};
            memset(text, 'a', begins);
            as_pattern_begin(&p, 0, text, sizeof text);
            CHECK(as_pattern_text(&p, 0) == begins);
            as_pattern_note_text(&p, 0, LENGTH, REQUEST, USABLE, bytes);
            enum as_pattern other = bytes ? AS_PATTERN_BYTES : AS_PATTERN_NONE;
            CHECK(as_pattern_of(&p, 0) == (begins == LENGTH ? AS_PATTERN_TEXT : other));
        }
}

int main(void)
{
    test_lengths_of_texts();
    test_arrays();
    test_noise();
    test_trees();
    test_lists();
    test_chains();
    test_tables();
    test_parts();
    return 0;
}
