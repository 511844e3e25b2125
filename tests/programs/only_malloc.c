// SPDX-License-Identifier: MIT
// A library with a malloc of its own, and no more, which hands each request on to libc's.
#include <stddef.h>

void *__libc_malloc(size_t size);

void *malloc(size_t size)
{
    return __libc_malloc(size);
}
