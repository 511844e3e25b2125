// SPDX-License-Identifier: MIT
// Anonymous memory of several kinds, each mapped by itself and written to: prints a line for each, "NAME ADDRESS BYTES", then
// "ready", and waits to be killed.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MB = 1 << 20, GAP = 64 << 10 };

// `size` bytes with nothing next to them that the kernel could join them with.
static char *map_alone(size_t size, int prot, int flags)
{
    char *at = mmap(NULL, size + 2 * GAP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED || munmap(at, size + 2 * GAP) != 0)
        abort();
    char *mapped = mmap(at + GAP, size, prot, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (mapped == MAP_FAILED)
        abort();
    return mapped;
}

static void say(const char *name, char *at, size_t bytes)
{
    memset(at, 1, bytes);
    printf("%s 0x%lx %zu\n", name, (unsigned long)at, bytes);
}

int main(void)
{
    const int rw = PROT_READ | PROT_WRITE;
    say("plain", map_alone(9 * MB, rw, MAP_PRIVATE), 9 * MB);
    say("shared", map_alone(8 * MB, rw, MAP_SHARED), 8 * MB);
    say("code", map_alone(7 * MB, rw | PROT_EXEC, MAP_PRIVATE), 7 * MB);
    char *stack = map_alone(5 * MB, rw, MAP_PRIVATE);
    if (mprotect(stack, 4096, PROT_NONE) != 0)
        abort();
    say("stack", stack + 4096, 4 * MB);
    char *reserved = map_alone(64 * MB, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE);
    if (mprotect(reserved, 3 * MB, rw) != 0)
        abort();
    say("reserved", reserved, 3 * MB);
    puts("ready");
    fflush(stdout);
    pause();
}
