// SPDX-License-Identifier: MIT
// Holds blocks of all sizes from its libc, in two threads, frees a part of them, and says where each of the others is: a line with its address and its
// size, in hexadecimal, then "ready". After that it waits. With an argument there are blocks of as many MiB, too.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 20000, LARGE = 3 };
static char *blocks[2][BLOCKS];

static size_t size_of(int i)
{
    return (size_t)(i % 1000 == 0 ? 300000 + i : i % 100 == 0 ? 20000 + i : i % 1500 + 1);
}

static void *hold(void *held)
{
    char **mine = held;
    for (int i = 0; i < BLOCKS; i++) {
        mine[i] = malloc(size_of(i));
        memset(mine[i], 1, size_of(i));
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3 == 0 || (i > BLOCKS / 2 && i < BLOCKS * 3 / 4)) {
            free(mine[i]);
            mine[i] = NULL;
        }
    return NULL;
}

int main(int argc, char **argv)
{
    size_t large = argc > 1 ? (size_t)atoi(argv[1]) << 20 : 0;
    pthread_t thread;
    if (pthread_create(&thread, NULL, hold, blocks[0]) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    hold(blocks[1]);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < BLOCKS; i++)
            if (blocks[k][i])
                printf("%lx %zx\n", (unsigned long)blocks[k][i], size_of(i));
    for (int i = 0; large > 0 && i < LARGE; i++) {
        char *block = malloc(large);
        memset(block, 1, large);
        printf("%lx %zx\n", (unsigned long)block, large);
    }
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
