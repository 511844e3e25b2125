// SPDX-License-Identifier: MIT
// Mmapped chunks, and below them memory of its own that appears as if there were more: by the rule of before glibc 2.43 (the
// map is as long as the chunk) and by that of 2.43 (16 bytes longer). With an argument, one of each kind that is as long as
// the first true one.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNKS = 5, STEP = 40 * 4096, REGION = 4 << 20, IS_MMAPPED = 2 };

static void *anonymous(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        exit(1);
    return memory;
}

int main(int argc, char **argv)
{
    (void)argv;
    for (size_t i = 1; i <= CHUNKS; i++)
        if (!malloc(i * STEP))
            return 1;
    anonymous(4096); // both kinds may end up in one mapping
    char *memory = anonymous(REGION);
    memset(memory, 0x5a, REGION);
    const uint64_t sizes[2][4] = {{0x4d000, 0x61000 - 16, 0x2b000, 0x35000 - 16},
                                  {STEP + 4096, STEP + 4096 - 16, 0, 0}};
    for (size_t i = 0; i < sizeof sizes[0] / sizeof sizes[0][0]; i++) {
        const uint64_t head[2] = {0, sizes[argc > 1][i] | IS_MMAPPED};
        memcpy(memory + (1 + i) * (REGION / 6 & ~4095), head, sizeof head);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
