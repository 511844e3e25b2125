// SPDX-License-Identifier: MIT
// Large chunks of which one begins on the page where another one, of another function, began before. Prints how many did; then waits.
//
//   large_sites [unseen]     unseen: the second one has the size of the first, and is allocated by no call that is hooked
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAIRS = 200, FIRST = 300 << 10, SECOND = 200 << 10, BETWEEN = 1000, BEFORE = 1112 };

static void *(*itself)(size_t); // malloc

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

static uintptr_t page_of(const void *block)
{
    return (uintptr_t)block / (uintptr_t)sysconf(_SC_PAGESIZE);
}

// What is freed has one chunk before it, and then is behind what is kept.
static int owned_after_each_other(void)
{
    void *old = first_owner();
    const uintptr_t began = page_of(old);
    void *behind = malloc(BETWEEN);
    free(old);
    kept[count++] = malloc(BETWEEN);
    kept[count++] = second_owner();
    return behind && page_of(kept[count - 1]) == began;
}

// Where the first one was there is room for another chunk before it, so that the next one begins there.
static int unseen_after_owned(void)
{
    void *room = malloc(BEFORE + FIRST);
    kept[count++] = malloc(BETWEEN); // what is freed is not behind all
    free(room);
    void *before = malloc(BEFORE), *old = first_owner();
    const uintptr_t began = page_of(old);
    volatile uintptr_t place = (uintptr_t)old; // or the compiler takes it for the block that is freed
    free(old);
    free(before);
    kept[count++] = itself(FIRST);
    const void *last = kept[count - 1];
    kept[count++] = malloc(BEFORE); // the rest
    return page_of(last) == began && (uintptr_t)last != place;
}

// Libc's table of symbols names the hook. One that is loaded besides has the function at the same place, by its own address: in a child, as
// this heap is to stay as it is.
static void find_itself(void)
{
    Dl_info here, there;
    uintptr_t *offset = mmap(NULL, sizeof *offset, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = offset == MAP_FAILED ? -1 : fork();
    if (child == 0) {
        void *other = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW), *function = other ? dlsym(other, "malloc") : NULL;
        if (function && dladdr(function, &there))
            *offset = (uintptr_t)function - (uintptr_t)there.dli_fbase;
        _exit(0);
    }
    if (child < 0 || waitpid(child, NULL, 0) < 0 || *offset == 0 || !dladdr((void *)(uintptr_t)puts, &here))
        exit(1);
    itself = (void *(*)(size_t))((uintptr_t)here.dli_fbase + *offset);
}

int main(int arguments, char **values)
{
    (void)values;
    int same = 0;
    find_itself();
    for (int i = 0; i < PAIRS; i++)
        same += arguments > 1 ? unseen_after_owned() : owned_after_each_other();
    printf("%d\n", same);
    fflush(stdout);
    pause();
    return kept[0] == NULL;
}
