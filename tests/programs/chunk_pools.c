// SPDX-License-Identifier: MIT
// As a library with the name of HotSpot's: has variables as that of a ChunkPool (JDK 17, and 21), and what nearly resembles one. Prints
// lines "KIND ADDRESS" (0x...), then "ready".
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MANY = 10, SIZE = 1000 };

struct chunk {
    struct chunk *next;
    uint64_t length;
};
struct pool {
    struct chunk *first;
    uint64_t count, used, size;
};

// Which others might read.
struct pool *right, *decoys[3];
struct {
    struct chunk *first;
    uint64_t size;
} right_later, decoy_later;

enum { HELD = 100000 };
void *held_by_variable;

static struct chunk *make(const char *kind, uint64_t wrong)
{
    struct chunk *first = NULL;
    for (uint64_t i = 0; i < MANY; i++) {
        struct chunk *made = calloc(1, SIZE);
        made->next = first;
        made->length = SIZE - sizeof *made + (i == MANY / 2 ? wrong : 0);
        if (wrong == 0 && kind[0] == 'c')
            ((void **)made)[5] = held_by_variable; // an old word
        first = made;
        printf("%s\t%p\n", kind, (void *)made);
    }
    return first;
}

static struct pool *make_pool(const char *kind, struct chunk *first, uint64_t count, uint64_t size)
{
    struct pool *made = malloc(sizeof *made);
    *made = (struct pool){first, count, 2, size};
    printf("%s\t%p\n", kind, (void *)made);
    return made;
}

__attribute__((constructor)) static void hold(void)
{
    held_by_variable = calloc(1, HELD);
    right = make_pool("pool", make("chunk", 0), MANY, SIZE);
    decoys[0] = make_pool("decoy", make("decoy", 0), MANY + 1, SIZE);  // one too few
    decoys[1] = make_pool("decoy", make("decoy", 8), MANY, SIZE);      // one has another length
    decoys[2] = make_pool("decoy", make("decoy", 0), MANY, SIZE - 64); // they are larger
    right_later.first = make("chunk", 0);
    right_later.size = SIZE - sizeof(struct chunk);
    decoy_later.first = make("decoy", 8);
    decoy_later.size = SIZE - sizeof(struct chunk);
    puts("ready");
    fflush(stdout);
}
