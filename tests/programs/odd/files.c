// SPDX-License-Identifier: MIT
// files COUNT [code]: has that many files mapped, as search engines and databases do: one file, time and again.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    FILE *file = fopen(argv[0], "r");
    int count = argc > 1 ? atoi(argv[1]) : 0;
    int protection = argc > 2 ? PROT_READ | PROT_EXEC : PROT_READ;
    if (!file)
        return 1;
    for (int i = 0; i < count; i++) {
        if (mmap(NULL, 4096, protection, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED) {
            perror("files");
            return 1;
        }
    }
    void *blocks[1000];
    for (int i = 0; i < 1000; i++)
        blocks[i] = malloc((size_t)(100 + i));
    for (int i = 0; i < 1000; i += 2)
        free(blocks[i]);
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
