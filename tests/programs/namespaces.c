// SPDX-License-Identifier: MIT
// Loads two more libcs in namespaces of their own, and uses the malloc of one of them.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    for (int i = 0; i < 2; i++) {
        void *(*other_malloc)(size_t);
        void *libc = dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
        void *symbol = libc ? dlsym(libc, "malloc") : NULL;
        if (!symbol) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        memcpy(&other_malloc, &symbol, sizeof other_malloc);
        for (int k = 0; i == 0 && k < 100; k++)
            other_malloc(1000);
    }
    puts("ready");
    fflush(stdout);
    pause();
    return 0;
}
