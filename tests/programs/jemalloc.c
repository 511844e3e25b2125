// SPDX-License-Identifier: MIT
// Holds blocks of many sizes from jemalloc, which is preloaded, frees a part of them, and says what jemalloc says of itself: on each
// line of its input "mapped N" and "retained N", in bytes, after that it waits on.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int mallctl(const char *name, void *old, size_t *old_size, void *new, size_t new_size) __attribute__((weak));

enum { BLOCKS = 40000 };
static char *blocks[BLOCKS];

static size_t ask(const char *name)
{
    size_t value = 0, size = sizeof value;
    uint64_t epoch = 1;
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    if (mallctl(name, &value, &size, NULL, 0) != 0)
        exit(1);
    return value;
}

int main(void)
{
    char line[16];
    if (!mallctl)
        return 2;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = (size_t)(i % 100 == 0 ? 100000 : i % 2000 + 1);
        blocks[i] = malloc(size);
        memset(blocks[i], 1, size);
    }
    for (int i = 0; i < BLOCKS; i += 3)
        free(blocks[i]);
    do {
        printf("mapped %zu\nretained %zu\n", ask("stats.mapped"), ask("stats.retained"));
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
    return 0;
}
