// SPDX-License-Identifier: MIT
// Blocks whose call stacks differ by which of two functions stands at some places far from malloc: between such a place and malloc there are
// more frames of one function. All stacks are of the same depth. Prints the ways, one for each block, the outermost function first: l or
// r; then waits.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 3000, TURNS = 10, MOST = 64, BYTES = 100 };

static void *kept[BLOCKS];
static volatile int returned; // written behind each call, so that none is a jump

static __attribute__((noinline)) void *left(const char *way);
static __attribute__((noinline)) void *right(const char *way);

static inline __attribute__((always_inline)) void *go_on(const char *way)
{
    void *block = *way == '\0' ? malloc(BYTES) : *way == 'l' ? left(way + 1) : right(way + 1);
    returned++;
    return block;
}

static void *left(const char *way)
{
    return go_on(way);
}

static void *right(const char *way)
{
    void *block = go_on(way);
    returned--; // so that the two are not made one
    return block;
}

int main(int count, char **values)
{
    char way[MOST + 1] = "";
    const int straight = count > 1 ? atoi(values[1]) : 0;
    if (straight + TURNS > MOST)
        return 2;
    for (int i = 0; i < BLOCKS; i++) {
        for (int turn = 0; turn < TURNS; turn++)
            way[turn] = (rand() >> 4) % 2 ? 'l' : 'r';
        memset(way + TURNS, 'l', (size_t)straight);
        kept[i] = go_on(way);
        puts(way);
    }
    puts("end");
    fflush(stdout);
    pause();
    return kept[0] == NULL;
}
