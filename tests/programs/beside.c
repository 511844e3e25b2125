// SPDX-License-Identifier: MIT
// Holds chunks beside whose pointers lie numbers that fit by chance: the next chunk's size, and what was left over. Prints lines
// "KIND ADDRESS" (0x...), then "ready", and waits for the end of its input.
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MANY = 50, LEAST = 400, NUMBER = 4 };

// A compiler leaves out what nobody reads.
static uintptr_t *volatile held[2 * MANY];
static size_t count;

static void *keep(const char *kind, void *chunk)
{
    printf("%s\t%p\n", kind, chunk);
    return chunk;
}

// The last two words of a chunk are a pointer and a number. With the size that malloc has behind them they are pointer, length, and
// capacity.
static void lay_before_a_size(size_t words, size_t next_size)
{
    volatile uintptr_t *owner = held[count++] = calloc(words, sizeof *owner);
    void *next = malloc(next_size);
    uintptr_t size = owner[words];
    void *made = size > LEAST ? keep("plain", calloc(1, size + 1)) : NULL;
    owner[words - 2] = (uintptr_t)made;
    owner[words - 1] = NUMBER;
    if (!next)
        exit(1);
}

// A pointer to a FILE, a number, and one that is a byte less than the FILE has room for.
static void lay_beside_a_file(void)
{
    FILE *file = keep("FILE", fopen("/dev/null", "r"));
    volatile uintptr_t *owner = held[count++] = calloc(3, sizeof *owner);
    owner[0] = (uintptr_t)file;
    owner[1] = NUMBER;
    owner[2] = malloc_usable_size(file) - 1;
}

int main(void)
{
    char byte;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    for (size_t i = 0; i < MANY; i++) {
        lay_before_a_size(3 + 2 * i, LEAST + 16 * i);
        lay_beside_a_file();
    }
    puts("ready");
    fflush(stdout);
    return read(0, &byte, 1) == 0 ? 0 : 1;
}
