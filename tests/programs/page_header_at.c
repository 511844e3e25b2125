// SPDX-License-Identifier: MIT
// Maps 1 MiB at a multiple of 4 GiB, where a range of V8's could begin. The command line has the word that the first page of 256 KiB
// has for an object; "sealed", if this page cannot be written any more; and the flags and the number of the second page.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 1 << 20, PAGE = 256 << 10 };

int main(int argc, char **argv)
{
    uint64_t *words = MAP_FAILED;
    if (argc != 5)
        return 1;
    for (uint64_t at = UINT64_C(0x100) << 32; words == MAP_FAILED; at += UINT64_C(1) << 32)
        words =
            mmap((void *)at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    words[2] = strtoull(argv[1], NULL, 0);
    if (strcmp(argv[2], "sealed") == 0)
        mprotect(words, PAGE, PROT_READ);
    uint64_t *second = words + PAGE / sizeof *words;
    second[0] = strtoull(argv[3], NULL, 0);
    second[1] = strtoull(argv[4], NULL, 0);
    puts("ready");
    fflush(stdout);
    pause();
}
