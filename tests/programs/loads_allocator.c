// SPDX-License-Identifier: MIT
// loads_allocator LIBRARY FUNCTION COUNT SIZE: loads an allocator beside libc's malloc and holds blocks of it, full of ones. Prints each
// block's first and last address + 1, and "ready".
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    void *library = argc == 5 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    void *(*allocate)(size_t) = library ? (void *(*)(size_t))dlsym(library, argv[2]) : NULL;
    if (!allocate) {
        fprintf(stderr, "%s\n", library ? "no such function" : dlerror());
        return 1;
    }
    size_t size = strtoul(argv[4], NULL, 0);
    for (long i = strtol(argv[3], NULL, 0); i > 0; i--) {
        char *block = allocate(size);
        memset(block, 1, size);
        printf("%p %zx\n", (void *)block, size);
    }
    puts("ready");
    fflush(stdout);
    getchar();
    return 0;
}
