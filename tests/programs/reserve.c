// SPDX-License-Identifier: MIT
// A large reservation beside little memory: `reserve KIND GIB` maps GIB GiB, writes to some of it, has one mmapped chunk of 1 MiB,
// says "ready" and waits to be killed.
//   none       PROT_NONE, of which the first MiB is writable and written: the two are one run of private memory
//   ends       writable (MAP_NORESERVE); its first and its last MiB are written
//   protected  as `ends`, and then PROT_NONE all over but for the first MiB
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { MEBIBYTE = 1 << 20 };
static void *volatile kept;

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    prctl(PR_SET_PDEATHSIG, 9);
    size_t size = strtoull(argv[2], NULL, 10) << 30;
    int writable = strcmp(argv[1], "none") == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
    char *map = mmap(NULL, size, writable, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED || mprotect(map, MEBIBYTE, PROT_READ | PROT_WRITE) != 0)
        return 1;
    memset(map, 1, MEBIBYTE);
    if (writable != PROT_NONE)
        memset(map + size - MEBIBYTE, 1, MEBIBYTE);
    if (strcmp(argv[1], "protected") == 0 && mprotect(map + MEBIBYTE, size - MEBIBYTE, PROT_NONE) != 0)
        return 1;
    kept = malloc(MEBIBYTE);
    if (write(STDOUT_FILENO, "ready\n", 6) != 6)
        return 1;
    return pause();
}
