// SPDX-License-Identifier: MIT
// few_mappings LEFT: a process that may have LEFT more mappings (vm.max_map_count), and needs one now and then. Says "ready"; ends when
// stdin does, and says how often it could not have one.
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

// Its mappings, as the kernel counts them: [vsyscall] is not one of its own.
static int count(void)
{
    char *line = NULL;
    size_t size = 0;
    int lines = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && getline(&line, &size, maps) > 0)
        lines += strstr(line, "[vsyscall]") == NULL;
    free(line);
    fclose(maps);
    return lines;
}

static int needs_one(void)
{
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return page == MAP_FAILED || munmap(page, PAGE) != 0;
}

int main(int argc, char **argv)
{
    int most = 0, failed = 0;
    int left = argc > 1 ? atoi(argv[1]) : 0;
    FILE *limit = fopen("/proc/sys/vm/max_map_count", "re");
    if (!limit || fscanf(limit, "%d", &most) != 1)
        return 2;
    fclose(limit);
    // Every second page of it has another protection, one after the other.
    char *all = mmap(NULL, (size_t)most * 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED)
        return 2;
    for (int more = most - left - count(); more > 1; more -= 2, all += 2 * PAGE)
        if (mprotect(all + PAGE, PAGE, PROT_NONE) != 0)
            return 2;
    puts("ready");
    fflush(stdout);
    for (struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN}; poll(&input, 1, 1) <= 0;)
        failed += needs_one();
    printf("%d failed\n", failed);
    return 0;
}
