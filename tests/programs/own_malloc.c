// SPDX-License-Identifier: MIT
// A program with a malloc of its own, which calls libc's by the names that libc has for this.
//
//   own_malloc BLOCKS [stays]
//
// Allocates so many blocks by each of malloc, calloc and realloc, frees those of calloc, and says so. Then it ends, or stays.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIZE = 5000 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

void *malloc(size_t size)
{
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return __libc_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return __libc_realloc(block, size);
}

void free(void *block)
{
    __libc_free(block);
}

static void *volatile kept;

int main(int count, char **words)
{
    for (int i = count > 1 ? atoi(words[1]) : 0; i > 0; i--) {
        kept = malloc(SIZE);
        kept = realloc(NULL, SIZE);
        kept = calloc(1, SIZE);
        free(kept);
    }
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    while (count > 2)
        pause();
    return 0;
}
