// SPDX-License-Identifier: MIT
// To be preloaded: each write at a place of a file takes a fifth of a second, as on a disk that is busy; not into memory.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    char name[64], path[64] = "";
    snprintf(name, sizeof name, "/proc/thread-self/fd/%d", fd);
    if (readlink(name, path, sizeof path - 1) > 0 && strncmp(path, "/memfd:", 7) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}
