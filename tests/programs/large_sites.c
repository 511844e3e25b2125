// SPDX-License-Identifier: MIT
// Large chunks of which one begins on the page where another one, of another function, began before. Prints how many did; then waits.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PAIRS = 200, FIRST = 300 << 10, SECOND = 200 << 10, BETWEEN = 1000 };

static void *kept[3 * PAIRS];
static size_t count;

static __attribute__((noinline)) void *first_owner(void)
{
    void *block = malloc(FIRST);
    __asm__ volatile("" ::: "memory");
    return block;
}

static __attribute__((noinline)) void *second_owner(void)
{
    void *block = malloc(SECOND);
    __asm__ volatile("" ::: "memory");
    return block;
}

int main(void)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    int same = 0;
    for (int i = 0; i < PAIRS; i++) {
        void *old = first_owner();
        const uintptr_t began = (uintptr_t)old / page;
        kept[count++] = malloc(BETWEEN); // what is behind is not the top
        free(old);
        kept[count++] = malloc(BETWEEN);
        kept[count] = second_owner();
        same += (uintptr_t)kept[count++] / page == began;
    }
    printf("%d\n", same);
    fflush(stdout);
    pause();
    return kept[0] == NULL;
}
