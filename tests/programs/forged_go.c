// SPDX-License-Identifier: MIT
// A C program with the note of Go's linker, and memory that resembles Go's heap and is not: `forged_go KIND` lays it out, says "ready"
// and waits.
//   true     a table with two arenas, of which parts are there: what must be found
//   empty    the same, but one of them has no memory
//   leads    the same, but a word of the table leads nowhere
//   full     every word of the table leads to memory
//   endless  thousands of variables point to tables, each of zeros that are resident
//   malloc   one of the arenas holds malloc's heap
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__asm__(".pushsection .note.go.buildid, \"a\", @note\n"
        ".balign 4\n.long 4\n.long 4\n.long 4\n.asciz \"Go\\0\"\n.asciz \"abc\"\n.popsection\n");

enum { ELEMENTS = 1 << 22, VARIABLES = 4096 };
static const uint64_t ARENA = UINT64_C(64) << 20;
static volatile uint64_t variables[VARIABLES];

static char *memory(size_t bytes, int protection)
{
    char *map = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        _exit(1);
    return map;
}

static uint64_t index_of(const void *address)
{
#ifdef __x86_64__
    return ((uint64_t)address + (UINT64_C(1) << 47)) / ARENA;
#else
    return (uint64_t)address / ARENA;
#endif
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "true";
    uint64_t *table = (uint64_t *)memory(ELEMENTS * sizeof *table, PROT_READ | PROT_WRITE);
    char *reserve = memory(4 * ARENA, PROT_NONE);
    reserve = (char *)(((uintptr_t)reserve / ARENA + 1) * ARENA);
    for (int i = 0; i < 2; i++) {
        if (i == 0 || strcmp(kind, "empty") != 0) {
            if (mprotect(reserve + (uint64_t)i * ARENA, 1 << 20, PROT_READ | PROT_WRITE) != 0)
                return 1;
            memset(reserve + (uint64_t)i * ARENA, 1, 1 << 16);
        }
        table[index_of(reserve + (uint64_t)i * ARENA)] = (uint64_t)table;
    }
    if (strcmp(kind, "leads") == 0)
        table[index_of(reserve)] = 4096;
    if (strcmp(kind, "malloc") == 0)
        table[index_of(malloc(100))] = (uint64_t)table;
    for (int i = 0; i < ELEMENTS && strcmp(kind, "full") == 0; i++)
        table[i] = (uint64_t)table;
    variables[VARIABLES - 1] = (uint64_t)table;
    if (strcmp(kind, "endless") == 0) {
        memset(table, 0, ELEMENTS * sizeof *table);
        char *more = memory(ELEMENTS * sizeof *table, PROT_READ | PROT_WRITE);
        memset(more, 0, ELEMENTS * sizeof *table);
        for (int i = 0; i < VARIABLES; i++)
            variables[i] = (uint64_t)(more < (char *)table ? more : (char *)table) + (uint64_t)i % 1024 * 4096;
    }
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
