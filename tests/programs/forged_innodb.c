// SPDX-License-Identifier: MIT
// Memory that resembles InnoDB's and is not: `mariadbd KIND` (under this name) lays it out, says "ready" and waits.
//   innodb             a buffer pool of two extents, and below it two buffers of the log: what must be found
//   innodb-descriptor  the same, but one descriptor in the middle of the second extent has another address
//   innodb-mark        the same, but the log's variable has another mark
//   innodb-later       the same, with the mark where 11.8 has it
//   innodb-size        the same, but the log's variable has another size
//   innodb-crossed     the same, but the log's second buffer lies in the buffer pool
#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { EXTENT = 8 << 20, PAGE = 16384, FIRST = 5, STRIDE = 20, FRAME = 6, LOG = 1 << 20, EXTENTS = 2 };

static volatile uint64_t log_variable[64]; // as MariaDB's, in .bss

static int is(const char *kind, const char *other)
{
    return strcmp(kind, other) == 0;
}

static void make_extent(uint64_t *extent)
{
    for (uint64_t i = 0; i < EXTENT / PAGE - FIRST; i++)
        extent[i * STRIDE + FRAME] = (uint64_t)extent + (FIRST + i) * PAGE;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "innodb";
    // The kernel must not join it with other mappings: how much room a buffer has follows from what lies behind it.
    char *map = mmap(NULL, (EXTENTS + 2) * EXTENT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return 1;
    char *pool = (char *)(((uintptr_t)map + EXTENT) / EXTENT * EXTENT + EXTENT), *logs = pool - 2 * LOG;
    if (pool + EXTENTS * EXTENT > map + (EXTENTS + 2) * EXTENT)
        pool -= EXTENT, logs -= EXTENT;
    if (mprotect(logs, 2 * LOG + EXTENTS * EXTENT, PROT_READ | PROT_WRITE))
        return 1;
    memset(logs, 1, 2 * LOG);
    for (int i = 0; i < EXTENTS; i++)
        make_extent((uint64_t *)(void *)(pool + i * EXTENT));
    if (is(kind, "innodb-descriptor"))
        ((uint64_t *)(void *)(pool + EXTENT))[100 * STRIDE + FRAME] += 8;
    log_variable[10] = (uint64_t)logs;
    log_variable[5] = UINT64_C(512) << 32 | (is(kind, "innodb-size") ? 2 * LOG : LOG); // beside it the size of blocks
    log_variable[14] = (uint64_t)(is(kind, "innodb-crossed") ? pool + 1 * EXTENT - 2 * LOG : logs + LOG);
    log_variable[is(kind, "innodb-later") ? 26 : 24] =
        (uint64_t)(is(kind, "innodb-mark") ? 0x50687974 : 0x50687973) << 32 | 4096;
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
