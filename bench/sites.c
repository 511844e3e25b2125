// SPDX-License-Identifier: MIT
// Allocates many small chunks by some thousand call stacks, says "ready", and waits: `sites N`. 1 GB at the 10 million of the default.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEEP = 12, LEAST = 64, MORE = 70, TOUCHED = 40 };

// Each bit of `path` leads to another of two callers.
// NOLINTBEGIN(misc-no-recursion): the depth is the call stack's
__attribute__((noinline)) static void *allocate(unsigned path, unsigned depth, size_t size)
{
    void *chunk;
    if (depth == 0)
        chunk = malloc(size);
    else if (path & 1) {
        chunk = allocate(path >> 1, depth - 1, size);
        __asm__ volatile("# odd" : "+r"(chunk)); // no tail call, and no place in common with the other
    } else {
        chunk = allocate(path >> 1, depth - 1, size + 1);
        __asm__ volatile("# even" : "+r"(chunk));
    }
    return chunk;
}
// NOLINTEND(misc-no-recursion)

int main(int count, char **arguments)
{
    size_t wanted = count > 1 ? strtoull(arguments[1], NULL, 10) : 10000000;
    void **kept = malloc(wanted * sizeof *kept);
    unsigned random = 1;
    for (size_t i = 0; kept && i < wanted; i++) {
        random = random * 1664525U + 1013904223U;
        kept[i] = allocate(random >> 8, random % MOST_DEEP, LEAST + (random >> 16) % MORE);
        if (kept[i])
            memset(kept[i], 1, TOUCHED);
    }
    puts("ready");
    fflush(stdout);
    pause();
    free(kept);
    return 0;
}
