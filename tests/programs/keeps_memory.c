// SPDX-License-Identifier: MIT
// Preloaded: the kernel seems to take no memory back, as it does of locked memory.
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

int madvise(void *address, size_t size, int advice)
{
    if (advice != MADV_DONTNEED)
        return (int)syscall(SYS_madvise, address, size, advice);
    errno = EINVAL;
    return -1;
}
