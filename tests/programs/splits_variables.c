// SPDX-License-Identifier: MIT
// A library to preload: before the program begins, each page of .bss gets a mapping of its own, in all objects that are loaded. A program
// does so who protects some of its variables, or gives them a protection key where the processor has these.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 1024, LINE = 512 };

struct range {
    unsigned long start, end;
};

// The nameless memory right behind each file's data that can be written.
static int find_bss(struct range *bss)
{
    char line[LINE], prot[5], path[LINE];
    unsigned long start, end, before = 0;
    int count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && count < MOST && fgets(line, sizeof line, maps)) {
        int fields = sscanf(line, "%lx-%lx %4s %*s %*s %*s %511s", &start, &end, prot, path);
        if (fields == 4)
            before = strcmp(prot, "rw-p") == 0 && path[0] == '/' ? end : 0;
        else if (fields == 3 && start == before)
            bss[count++] = (struct range){start, end};
    }
    if (maps)
        fclose(maps);
    return count;
}

// That a child has no copy of every second page is of no account, as there is none.
__attribute__((constructor)) static void split(void)
{
    struct range bss[MOST];
    int count = find_bss(bss);
    unsigned long size = (unsigned long)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < count; i++)
        for (unsigned long page = bss[i].start; page < bss[i].end; page += 2 * size)
            madvise((void *)page, size, MADV_DONTFORK);
}
