// SPDX-License-Identifier: MIT
// Allocates at the end of a recursion of two functions that is deeper than the stacks of a profile, by a function with others inlined, and
// from main. Writes down each block's address and site, and waits for the end of stdin.
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH = 400, BLOCKS = 300, SIZE = 1000, NEAR = 3 };

static inline __attribute__((always_inline)) void *ask(size_t size)
{
    return malloc(size);
}

static inline __attribute__((always_inline)) void keep(char site)
{
    printf("%c %zu\n", site, (size_t)ask(SIZE));
}

static __attribute__((noipa)) void leaf(void)
{
    for (int i = 0; i < BLOCKS; i++)
        keep('a');
}

static __attribute__((noipa)) void even(int left);

static __attribute__((noipa)) void odd(int left)
{
    even(left - 1);
    __asm__ volatile(""); // no tail call
}

static __attribute__((noipa)) void even(int left)
{
    if (left > 0)
        odd(left - 1);
    else
        leaf();
    __asm__ volatile("");
}

static __attribute__((noipa)) void near(void)
{
    for (int i = 0; i < NEAR; i++)
        keep('b');
}

int main(void)
{
    static char buffer[1 << 14];
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer)); // or printf allocates one down there
    even(DEPTH);
    near();
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF) {
    }
}
