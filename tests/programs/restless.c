// SPDX-License-Identifier: MIT
// Allocates and frees blocks of all sizes in three threads, without an end.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 1024, WRITTEN = 64, ROUNDS = 100000 };

static void *turn(void *seed)
{
    char *blocks[BLOCKS] = {0};
    unsigned state = *(const unsigned *)seed;
    for (unsigned long i = 0;; i++) {
        state = state * 1103515245 + 12345;
        char **block = &blocks[state >> 8 & (BLOCKS - 1)];
        size_t size = (state >> 4) % (state & 1 ? 200000 : 3000) + 1;
        free(*block);
        *block = malloc(size);
        if (*block)
            memset(*block, 1, size < WRITTEN ? size : WRITTEN);
        if (i == ROUNDS && *(const unsigned *)seed == 1 && write(STDOUT_FILENO, "ready\n", 6) != 6)
            exit(1);
    }
}

int main(void)
{
    static unsigned seeds[] = {1, 2, 3};
    pthread_t thread;
    if (pthread_create(&thread, NULL, turn, &seeds[1]) != 0 || pthread_create(&thread, NULL, turn, &seeds[2]) != 0)
        return 1;
    turn(&seeds[0]);
}
