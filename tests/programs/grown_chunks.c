// SPDX-License-Identifier: MIT
// Large chunks for requests that are not large: mappings of their own, far more than asked for by an alignment, and whole pages. Keeps KEPT of
// each, says how many of these are large, then waits.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { KEPT = 100, ALIGNMENT = 256 << 10 };

static void *volatile kept[4 * KEPT];

__attribute__((noinline)) static void by_mapping(void)
{
    for (int i = 0; i < KEPT; i++)
        kept[i] = malloc(13000);
}

__attribute__((noinline)) static void by_alignment(void)
{
    for (int i = 0; i < KEPT; i++) {
        void *made;
        if (posix_memalign(&made, ALIGNMENT, 4000) != 0)
            abort();
        kept[KEPT + i] = made;
    }
}

__attribute__((noinline)) static void by_pages(void)
{
    for (int i = 0; i < KEPT; i++)
        kept[2 * KEPT + i] = pvalloc(12289);
}

// As the recorder has it: with its header, and of a page at least.
static int large_from(int first)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), large = page > 16384 ? page : 16384;
    int count = 0;
    for (int i = first; i < first + KEPT; i++)
        count += malloc_usable_size(kept[i]) + 16 >= large;
    return count;
}

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 8192); // what the heap has no room for is a mapping of its own
    by_mapping();
    by_alignment();
    by_pages();
    printf("%d %d %d\n", large_from(0), large_from(KEPT), large_from(2 * KEPT));
    fflush(stdout);
    pause();
    return 0;
}
