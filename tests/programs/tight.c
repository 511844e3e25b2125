// SPDX-License-Identifier: MIT
// Writes half of its blocks again and again, as fast as it can but for a short sleep: whoever makes a copy-on-write clone of it has
// nearly every page copied within a second. It says "READY" once all blocks are written, and "late" when it was
// told by a line on its standard input to write all of them, having left them alone before (with "late" as its argument).
//
// tight [MIB [late | grow]]: grow: allocates as much again, and more, from that line on, until it is killed.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 2000, ROUNDS = 3, SLEEP_US = 20000 };

int main(int argc, char **argv)
{
    size_t count = (size_t)(argc > 1 ? atoi(argv[1]) : 600) * 1000000 / BLOCK;
    const char *how = argc > 2 ? argv[2] : "";
    char **blocks = calloc(count, sizeof *blocks);
    char line[16];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(BLOCK);
        memset(blocks[i], 1, BLOCK);
    }
    printf("READY\n");
    fflush(stdout);
    if (*how && !fgets(line, sizeof line, stdin))
        return 1;
    while (strcmp(how, "grow") == 0) {
        memset(malloc(BLOCK), 1, BLOCK);
    }
    for (unsigned long round = 0;; round++) {
        for (size_t i = 0; i < count; i += 2)
            blocks[i][round % BLOCK]++;
        if (round % ROUNDS == 0)
            usleep(SLEEP_US);
    }
}
