// SPDX-License-Identifier: MIT
#include "base/memory.h"

#include <sys/mman.h>

void *as_memory_map(size_t bytes, const char *what, struct as_error *err)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    as_fail(err, AS_NO_MEMORY, "no memory for %s (%zu bytes)", what, bytes);
    return NULL;
}

void as_memory_unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}
