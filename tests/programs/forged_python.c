// SPDX-License-Identifier: MIT
// Memory that resembles the arenas of a Python and is not: `forged_python KIND` lays it out, says "ready" and waits. The tests run
// it under the name python3.
//   true      one arena as pymalloc has it: what must be found
//   late      the same, at the end of a table whose other elements lost their arenas: what must be found, too
//   copy      the same in a table that ends with its first group; zeros follow, and a copy of it: what must be found, too
//   lies      the true one, but a pool has more blocks in use than it has room for
//   counts    the same, but the table says two more empty pools than there are
//   overlap   two tables whose arenas overlap by half
//   endless   a pointer to a table in each word of the variables; each table is long, and its last arena is none
// Interpreters as 3.12 lists them, each with an arena of its own:
//   interpreters  three, the first of which is among the variables: what must be found
//   numbers       the same, but two have the same number: only the first one's arena can be proven
//   circle        the same, but the oldest leads to the newest
//   first         the same, but the first one has a number
// Arenas as pymalloc has them, with blocks that resemble objects:
//   objects   lists, each of which owns the block behind it: what must be counted
//   few       the same, in fewer arenas
//   loop      the same, but a pool's list of free blocks leads back to its beginning
//   shared    the same, but all lists own one and the same block, or memory that is nobody's
//   ring      the types' own types lead from one to the next, and none is its own
//   types     each block has a type of its own, more than a Python has
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// What tells a program of CPython's that exports nothing.
static char runtime[16] __attribute__((section(".PyRuntime"), used)) = {1};

enum {
    POOL = 16384,
    ARENA = 1 << 20,
    POOLS = 64,
    HEADER = 48,
    ELEMENTS = 65536,
    WORDS = 1 << 19,
    TABLES = 64,
    GROUP = 16
};

struct arena_object {
    uint64_t address, pool_address;
    uint32_t free_pools, total_pools;
    uint64_t free_list, next, previous;
};
struct pool_header {
    uint32_t count, padding;
    uint64_t free_block, next, previous;
    uint32_t arena, size_class, next_offset, max_next_offset;
};

static void *variables[WORDS]; // as CPython's, in .bss

static char *memory(size_t bytes)
{
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    return map;
}

// A table whose elements have no arena: each leads to the next, and the last to none.
static struct arena_object *new_table(size_t behind)
{
    struct arena_object *table = (struct arena_object *)memory(ELEMENTS * sizeof *table + behind);
    for (uint32_t i = 0; i + 1 < ELEMENTS; i++)
        table[i].next = (uint64_t)&table[i + 1];
    return table;
}

// Fills an arena with pools of 32-byte blocks, each with `count` in use, and describes it in element `index`.
static void lay_out(struct arena_object *table, uint32_t index, char *arena, uint32_t count)
{
    uint64_t first = ((uint64_t)arena + POOL - 1) / POOL * POOL;
    uint32_t pools = POOLS - (first != (uint64_t)arena);
    for (uint32_t i = 0; i < pools; i++) {
        struct pool_header *pool = (struct pool_header *)(first + (uint64_t)i * POOL);
        pool->count = count;
        pool->arena = index;
        pool->size_class = 1;
        pool->next_offset = HEADER + 32 * ((POOL - HEADER) / 32);
        pool->max_next_offset = POOL - 32;
    }
    table[index] = (struct arena_object){
        .address = (uint64_t)arena, .pool_address = first + (uint64_t)pools * POOL, .total_pools = pools};
}

struct type {
    uint64_t refcount, type, size;
    const char *name;
    uint64_t basic_size, unread[16], flags, rest[12];
};
enum {
    BLOCK = 64,
    BLOCKS = (POOL - HEADER) / BLOCK,
    TYPE_SUBCLASS = 1u << 31,
    LIST_SUBCLASS = 1 << 25,
    HAVE_GC = 1 << 14
};

static struct type metatype = {1, (uint64_t)&metatype, 0, "type", 400, {0}, TYPE_SUBCLASS | HAVE_GC, {0}};
static struct type list = {1, (uint64_t)&metatype, 0, "list", 40, {0}, LIST_SUBCLASS | HAVE_GC, {0}};
static struct type ring[64];

// A block's words: PyGC_Head, then a list. `owned`: what it says to be its items.
static void put_list(uint64_t *block, const struct type *type, uint64_t owned)
{
    uint64_t words[] = {(uint64_t)block, (uint64_t)block, 1, (uint64_t)type, 4, owned, 4, 0};
    memcpy(block, words, sizeof words);
}

// Makes objects of an arena's blocks, of which all are in use: `made` counts them.
static void fill(const char *kind, char *arena, struct type *types, uint32_t *made)
{
    uint64_t first = ((uint64_t)arena + POOL - 1) / POOL * POOL;
    uint32_t pools = POOLS - (first != (uint64_t)arena);
    for (uint32_t i = 0; i < pools; i++) {
        struct pool_header *pool = (struct pool_header *)(first + (uint64_t)i * POOL);
        uint64_t *blocks = (uint64_t *)(pool + 1);
        pool->count = BLOCKS;
        pool->size_class = BLOCK / 16 - 1;
        pool->next_offset = HEADER + BLOCK * BLOCKS;
        pool->max_next_offset = POOL - BLOCK;
        for (uint32_t k = 0; k + 1 < BLOCKS; k += 2, (*made)++) {
            uint64_t *block = blocks + k * BLOCK / 8;
            const struct type *type = &list;
            if (strcmp(kind, "ring") == 0)
                type = &ring[*made % 64];
            if (strcmp(kind, "types") == 0) {
                types[*made] = list;
                type = &types[*made];
            }
            uint64_t owned = (uint64_t)(block + BLOCK / 8);
            if (strcmp(kind, "shared") == 0)
                owned = *made % 2 ? first + HEADER + BLOCK : UINT64_MAX / 3 + *made;
            put_list(block, type, owned);
        }
        if (strcmp(kind, "loop") == 0) {
            uint64_t *last = blocks + (BLOCKS - 1) * BLOCK / 8;
            pool->count = BLOCKS - 1;
            pool->free_block = *last = (uint64_t)last;
        }
    }
}

static void make_objects(const char *kind)
{
    uint32_t count = strcmp(kind, "few") == 0 ? 2 : 20;
    struct type *types = (struct type *)memory((size_t)count * (ARENA / BLOCK) * sizeof *types);
    struct arena_object *table = variables[0];
    char *arenas = memory((size_t)(count + 1) * ARENA);
    uint32_t made = 0;
    for (int i = 0; i < 64; i++) {
        ring[i] = list;
        ring[i].type = (uint64_t)&ring[(i + 1) % 64];
        ring[i].flags = TYPE_SUBCLASS | HAVE_GC;
    }
    for (uint32_t i = 0; i < count; i++) {
        lay_out(table, i, arenas + i * ARENA, 100);
        fill(kind, arenas + i * ARENA, types, &made);
    }
}

// Two states beside the first one's, each with its table at the same distance from its beginning.
static void make_interpreters(const char *kind)
{
    enum { FIRST = 200, DISTANCE = 100 };
    uint64_t *words = (uint64_t *)variables, *states[2];
    for (int i = 0; i < 2; i++) {
        // What is behind a table of malloc's is no further element: another table, right behind, would be one.
        struct arena_object *table = new_table(POOL);
        lay_out(table, 0, memory(ARENA), 100);
        states[i] = (uint64_t *)memory(POOL);
        states[i][DISTANCE] = (uint64_t)table;
        states[i][DISTANCE + 1] = 16;
    }
    words[100] = (uint64_t)states[0];
    words[101] = (uint64_t)&words[FIRST];
    words[102] = 6;
    states[0][0] = (uint64_t)states[1];
    states[0][1] = 5;
    states[1][0] = (uint64_t)(strcmp(kind, "circle") == 0 ? states[0] : &words[FIRST]);
    states[1][1] = strcmp(kind, "numbers") == 0 ? 5 : 3;
    words[FIRST + 1] = strcmp(kind, "first") == 0;
    words[FIRST + DISTANCE] = words[0];
    words[FIRST + DISTANCE + 1] = 16;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "true";
    struct arena_object *table = new_table(0);
    char *arena = memory(2 * ARENA);
    variables[0] = table;
    uint32_t index = strcmp(kind, "late") == 0 ? 31 : 0;
    lay_out(table, index, arena, strcmp(kind, "lies") == 0 ? (POOL - HEADER) / 32 + 1 : 100);
    if (strcmp(kind, "copy") == 0) {
        table[GROUP - 1].next = 0;
        memset(&table[GROUP], 0, GROUP * sizeof *table);
        memcpy(&table[2 * GROUP], table, GROUP * sizeof *table);
    }
    if (strcmp(kind, "counts") == 0)
        table[0].free_pools = 2;
    if (strcmp(kind, "overlap") == 0) {
        struct arena_object *other = new_table(0);
        lay_out(other, 0, arena + ARENA / 2, 100);
        variables[1] = other;
    }
    for (int i = 0; i < TABLES && strcmp(kind, "endless") == 0; i++) {
        table = new_table(0);
        table[0] = *(struct arena_object *)variables[0];
        table[ELEMENTS - 1] = (struct arena_object){.address = 4096, .total_pools = 1};
        for (int k = i; k < WORDS; k += TABLES)
            variables[k] = table;
    }
    static const char *const of_objects[] = {"objects", "few", "loop", "shared", "ring", "types"};
    for (size_t i = 0; i < sizeof of_objects / sizeof of_objects[0]; i++)
        if (strcmp(kind, of_objects[i]) == 0)
            make_objects(kind);
    static const char *const of_interpreters[] = {"interpreters", "numbers", "circle", "first"};
    for (size_t i = 0; i < sizeof of_interpreters / sizeof of_interpreters[0]; i++)
        if (strcmp(kind, of_interpreters[i]) == 0)
            make_interpreters(kind);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
