// SPDX-License-Identifier: MIT
// Writes one in two of its blocks again and again, which is all of its pages, as fast as it can but for a short sleep: a copy-on-write
// clone of it costs as much memory again within a second.
//
// tight [MB [late]]: says "READY" once all blocks are there. late: leaves them alone until it is told, by a line with a number, to allocate so
// many MB more, and then to go on as without the word.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 2000, ROUNDS = 3, SLEEP_US = 20000 };

static void grow(char **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(BLOCK);
        memset(blocks[i], 1, BLOCK);
    }
}

static size_t count_of(const char *megabytes)
{
    return (size_t)atoi(megabytes) * 1000000 / BLOCK;
}

int main(int argc, char **argv)
{
    size_t count = count_of(argc > 1 ? argv[1] : "600");
    char **blocks = calloc(count, sizeof *blocks);
    char line[16];
    grow(blocks, count);
    printf("READY\n");
    fflush(stdout);
    if (argc > 2) {
        if (!fgets(line, sizeof line, stdin))
            return 1;
        size_t more = count_of(line);
        grow(calloc(more + 1, sizeof *blocks), more);
    }
    for (unsigned long round = 0;; round++) {
        for (size_t i = 0; i < count; i += 2)
            blocks[i][round % BLOCK]++;
        if (round % ROUNDS == 0)
            usleep(SLEEP_US);
    }
}
