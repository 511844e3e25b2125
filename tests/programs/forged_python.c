// SPDX-License-Identifier: MIT
// Memory that looks like the arenas of a Python and is not: `forged_python KIND` lays it out, says "ready" and waits. The tests run
// it under the name python3.
//   true      one arena as pymalloc has it: what must be found
//   late      the same, at the end of a table whose other elements lost their arenas: what must be found, too
//   lies      the true one, but a pool has more blocks in use than it has room for
//   counts    the same, but the table says two more empty pools than there are
//   overlap   two tables whose arenas overlap by half
//   endless   a pointer to a table in each word of the variables; each table is long, and its last arena is none
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POOL = 16384, ARENA = 1 << 20, POOLS = 64, HEADER = 48, ELEMENTS = 65536, WORDS = 1 << 19, TABLES = 64 };

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

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "true";
    struct arena_object *table = (struct arena_object *)memory(ELEMENTS * sizeof *table);
    char *arena = memory(2 * ARENA);
    variables[0] = table;
    uint32_t index = strcmp(kind, "late") == 0 ? 31 : 0;
    for (uint32_t i = 0; i + 1 < index; i++)
        table[i].next = (uint64_t)&table[i + 1];
    lay_out(table, index, arena, strcmp(kind, "lies") == 0 ? (POOL - HEADER) / 32 + 1 : 100);
    if (strcmp(kind, "counts") == 0)
        table[0].free_pools = 2;
    if (strcmp(kind, "overlap") == 0) {
        struct arena_object *other = (struct arena_object *)memory(ELEMENTS * sizeof *table);
        lay_out(other, 0, arena + ARENA / 2, 100);
        variables[1] = other;
    }
    for (int i = 0; i < TABLES && strcmp(kind, "endless") == 0; i++) {
        table = (struct arena_object *)memory(ELEMENTS * sizeof *table);
        table[0] = *(struct arena_object *)variables[0];
        table[ELEMENTS - 1] = (struct arena_object){.address = 4096, .total_pools = 1};
        for (int k = i; k < WORDS; k += TABLES)
            variables[k] = table;
    }
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
