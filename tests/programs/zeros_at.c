// SPDX-License-Identifier: MIT
// Maps 1 MiB of which the first 16 bytes are 0 at a multiple of 4 GiB, where a range of V8's could begin. A word behind
// them comes from the command line. With a further word the memory cannot be written any more.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    uint64_t *words = MAP_FAILED;
    for (uint64_t at = UINT64_C(0x100) << 32; words == MAP_FAILED && argc > 1; at += UINT64_C(1) << 32)
        words =
            mmap((void *)at, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    words[2] = strtoull(argv[1], NULL, 0);
    if (argc > 2)
        mprotect(words, 1 << 20, PROT_READ);
    puts("ready");
    fflush(stdout);
    pause();
}
