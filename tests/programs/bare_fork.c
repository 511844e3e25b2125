// SPDX-License-Identifier: MIT
// A child by _Fork(), which runs no handler of pthread_atfork(), allocates and frees a million times, and says by how many KiB it has grown.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TIMES = 1000000 };

extern pid_t _Fork(void) __attribute__((weak)); // since glibc 2.34

static long resident(void)
{
    long size, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &size, &pages) != 2)
        _exit(70);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void allocate(void)
{
    for (int i = 0; i < TIMES; i++) {
        void *volatile block = malloc(100);
        free(block);
    }
}

static int code_of(pid_t child)
{
    int status;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 71;
}

int main(void)
{
    if (!_Fork)
        return 77;
    allocate(); // what the recorder needs for it is there
    pid_t child = _Fork();
    if (child == 0) {
        long before = resident();
        allocate();
        printf("%ld\n", resident() - before);
        fflush(stdout);
        _exit(0);
    }
    return code_of(child);
}
