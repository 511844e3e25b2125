// SPDX-License-Identifier: MIT
#include "base/memory.h"

#include <sys/mman.h>

enum { LARGE = 16 << 20 }; // bytes: less than an eighth is lost in the last of the pages of 2 MiB

void *as_memory_map(size_t bytes, const char *what, struct as_error *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    as_fail(err, AS_NO_MEMORY, "no memory for %s (%zu bytes)", what, bytes);
    return NULL;
}

void *as_memory_map_large(size_t bytes, const char *what, struct as_error *err)
{
    void *memory = as_memory_map(bytes, what, err);
    if (memory)
        as_memory_prefer_large_pages(memory, bytes);
    return memory;
}

void as_memory_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

void as_memory_prefer_large_pages(void *memory, size_t bytes)
{
    if (bytes >= LARGE)
        madvise(memory, bytes, MADV_HUGEPAGE);
}
