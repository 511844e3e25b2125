// SPDX-License-Identifier: MIT
// Allocates by more call stacks than a profile's tables have room for. For each line STACKS on standard input it goes through so many that
// it has not been on yet, has BLOCKS blocks of SIZE bytes on each, frees them, and says how many bytes that were since it began.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

// Stacks are recognised by their innermost frames, and their outermost ones are kept once for all that have them: both differ.
enum { DEPTH = 240, DIFFERENT = 14, BLOCKS = 40, SIZE = 1000 };

__attribute__((noinline)) static void allocate(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        void *volatile block = malloc(SIZE);
        free(block);
    }
    __asm__ volatile(""); // no tail call
}

static int is_other(uint32_t stack, uint32_t bit)
{
    return bit < DIFFERENT && stack >> bit & 1;
}

__attribute__((noinline)) static void call(uint32_t stack, uint32_t depth)
{
    if (depth == 0)
        allocate();
    else if (is_other(stack, depth <= DIFFERENT ? depth - 1 : DEPTH - depth)) {
        call(stack, depth - 1);
        __asm__ volatile("# the one");
    } else {
        call(stack, depth - 1);
        __asm__ volatile("# the other");
    }
}

int main(void)
{
    char line[32];
    uint32_t stack = 0;
    setvbuf(stdout, NULL, _IONBF, 0);
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        for (unsigned long left = strtoul(line, NULL, 10); left > 0 && stack < 1U << DIFFERENT; left--)
            call(stack++, DEPTH);
        printf("%llu\n", (unsigned long long)stack * BLOCKS * SIZE);
    }
    return 0;
}
