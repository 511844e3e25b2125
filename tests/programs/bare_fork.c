// SPDX-License-Identifier: MIT
// A child by _Fork(), which runs no handler of pthread_atfork(), allocates and frees a million times, and says by how many KiB it has grown.
// `bare_fork nested`: a child by fork() that has its parent's pid, each in its own namespace, ends by exit().
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

static pid_t fork_into_namespace(void)
{
    return unshare(CLONE_NEWPID) == 0 ? fork() : -1;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "nested") == 0) {
        pid_t child = fork_into_namespace();
        if (child == 0) // the record of this one begins
            execl("/proc/self/exe", argv[0], "inner", NULL);
        return code_of(child);
    }
    if (argc > 1) {
        pid_t child = fork_into_namespace();
        if (child == 0)
            exit(getpid() == 1 ? 0 : 72);
        return code_of(child);
    }
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
