// SPDX-License-Identifier: MIT
// Preloaded into arenadump: counts what it asks of pagemap, and writes the sums to $COUNT_ASKS as it exits: ioctls (PAGEMAP_SCAN),
// and pagemap entries that were read (8 bytes each, at multiples of 8). With NO_PAGEMAP_SCAN in the environment the kernel is one
// before Linux 6.7.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_ulong scans, entries;

static int is_pagemap(int fd)
{
    char name[64];
    char path[256];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    return length > 8 && memcmp(path + length - 8, "/pagemap", 8) == 0;
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (_IOC_TYPE(request) == 'f' && _IOC_NR(request) == 16) {
        if (getenv("NO_PAGEMAP_SCAN"))
            return errno = ENOTTY, -1;
        scans++;
    }
    return (int)syscall(SYS_ioctl, fd, request, argument);
}

static ssize_t count_pread(int fd, void *buffer, size_t length, off64_t offset)
{
    ssize_t got = syscall(SYS_pread64, fd, buffer, length, offset);
    if (got > 0 && is_pagemap(fd))
        entries += (unsigned long)got / 8;
    return got;
}

ssize_t pread64(int fd, void *buffer, size_t length, off64_t offset)
{
    return count_pread(fd, buffer, length, offset);
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
    return count_pread(fd, buffer, length, offset);
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("COUNT_ASKS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    fprintf(file, "%lu %lu\n", scans, entries);
    fclose(file);
}
