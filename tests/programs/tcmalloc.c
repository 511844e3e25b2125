// SPDX-License-Identifier: MIT
// Holds blocks of many sizes from tcmalloc, which is preloaded, frees a part of them, has a part of the free memory returned, and says what
// tcmalloc says of itself: on each line of its input "generic.heap_size N" and others, in bytes; after that it waits on. An argument says
// how many more blocks of 300 MiB it takes, which it writes to on one page.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int MallocExtension_GetNumericProperty(const char *name, size_t *value) __attribute__((weak));
void MallocExtension_ReleaseToSystem(size_t bytes) __attribute__((weak));

enum { BLOCKS = 60000, LARGE = 300 << 20 };
static char *blocks[BLOCKS];

static void say(const char *name)
{
    size_t value = 0;
    if (!MallocExtension_GetNumericProperty(name, &value))
        exit(1);
    printf("%s %zu\n", name, value);
}

int main(int argc, char **argv)
{
    char line[16];
    if (!MallocExtension_GetNumericProperty)
        return 2;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = (size_t)(i % 100 == 0 ? 100000 : i % 2000 + 1);
        blocks[i] = malloc(size);
        memset(blocks[i], 1, size);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (i % 3 == 0 || i > BLOCKS / 2)
            free(blocks[i]);
    for (int i = argc > 1 ? atoi(argv[1]) : 0; i > 0; i--)
        ((volatile char *)malloc(LARGE))[0] = 1;
    MallocExtension_ReleaseToSystem(10 << 20);
    do {
        say("generic.heap_size");
        say("tcmalloc.pageheap_free_bytes");
        say("tcmalloc.pageheap_unmapped_bytes");
        fflush(stdout);
    } while (fgets(line, sizeof line, stdin));
    return 0;
}
