// SPDX-License-Identifier: MIT
// Preloaded below qemu's emulation of a single program: it shows a process its own mappings by /proc/self/maps alone. By any other name,
// and in smaps, they are the emulator's, in which no code may be executed. So here smaps is missing, as in a kernel without it.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_other(int folder, const char *name, int flags, int mode)
{
    if (strcmp(name, "smaps") == 0) {
        errno = ENOENT;
        return -1;
    }
    if (strcmp(name, "maps") == 0)
        return (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", flags, mode);
    return (int)syscall(SYS_openat, folder, name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    return open_other(folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...) __attribute__((alias("openat")));
