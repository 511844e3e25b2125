// SPDX-License-Identifier: MIT
// What programs that are linked with jemalloc ask it for, besides malloc(), on glibc's malloc: to be loaded in jemalloc's stead.
#include <stdlib.h>
#include <string.h>

enum { ZERO = 0x40 }; // a flag

void *mallocx(size_t size, int flags);
void *rallocx(void *block, size_t size, int flags);
void dallocx(void *block, int flags);
void sdallocx(void *block, size_t size, int flags);
size_t nallocx(size_t size, int flags);
int mallctl(const char *name, void *old, size_t *length, void *new, size_t size);
int mallctlnametomib(const char *name, size_t *numbers, size_t *count);
int mallctlbymib(const size_t *numbers, size_t count, void *old, size_t *length, void *new, size_t size);
void malloc_stats_print(void (*write)(void *, const char *), void *context, const char *options);

void *mallocx(size_t size, int flags)
{
    return flags & ZERO ? calloc(1, size) : malloc(size);
}

void *rallocx(void *block, size_t size, int flags)
{
    (void)flags;
    return realloc(block, size);
}

void dallocx(void *block, int flags)
{
    (void)flags;
    free(block);
}

void sdallocx(void *block, size_t size, int flags)
{
    (void)size, (void)flags;
    free(block);
}

// What malloc has for so many bytes.
size_t nallocx(size_t size, int flags)
{
    (void)flags;
    return size < 24 ? 24 : ((size + 23) & ~(size_t)15) - 8;
}

// All that it counts is 0.
int mallctl(const char *name, void *old, size_t *length, void *new, size_t size)
{
    (void)name, (void)new, (void)size;
    if (old && length)
        memset(old, 0, *length);
    return 0;
}

int mallctlnametomib(const char *name, size_t *numbers, size_t *count)
{
    (void)name;
    memset(numbers, 0, *count * sizeof *numbers);
    return 0;
}

int mallctlbymib(const size_t *numbers, size_t count, void *old, size_t *length, void *new, size_t size)
{
    (void)numbers, (void)count;
    return mallctl("", old, length, new, size);
}

void malloc_stats_print(void (*write)(void *, const char *), void *context, const char *options)
{
    (void)write, (void)context, (void)options;
}
