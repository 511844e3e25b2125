// SPDX-License-Identifier: MIT
// Loads a library with an interpreter (forged_libpython.c), and unloads it.
//
//   unloads HOW LIBRARY [OTHER]
//
// HOW:
//   told   allocates; unloads it when it reads a byte, and says so; ends when there is nothing to be read any more
//   ends   by each byte that it reads: allocates below LIBRARY; begins to unload OTHER (slow_ending.c); goes on with that; ends. It says so
// Ends with 0; 2: it could not do so.
#define _GNU_SOURCE
#include "unloads.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *volatile kept;

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return library;
}

typedef void *user(void);

static user *user_of(void *library, const char *name)
{
    return (user *)dlsym(library, name);
}

static void wait_for_word(void *library)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    char byte;
    puts("ready");
    fflush(stdout);
    for (ssize_t got = 1; got > 0;) {
        free(malloc(100));
        if (poll(&in, 1, 1) <= 0 || (got = read(STDIN_FILENO, &byte, 1)) <= 0)
            continue;
        const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
        void *type = (void *)((uintptr_t)dlsym(library, "PyCode_Type") & ~(page - 1));
        dlclose(library);
        // So that nothing is mapped there later that could be read.
        mmap(type, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        puts("unloaded");
        fflush(stdout);
    }
}

static void say_and_read(const char *text)
{
    char byte;
    puts(text);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) < 0)
        continue;
}

static void ending(void)
{
    say_and_read("unloading");
}

static void unload_slowly(void *library, void *other)
{
    say_and_read("ready");
    kept = user_of(library, "use")();
    say_and_read("known");
    SHARED->ending = ending;
    dlclose(other);
    say_and_read("unloaded");
}

int main(int count, char **words)
{
    void *page = mmap(SHARED, sizeof *SHARED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const char *how = count > 2 ? words[1] : "";
    if (page != SHARED)
        return 2;
    if (strcmp(how, "asked") == 0)
        wait_for_word(load(words[2]));
    else if (strcmp(how, "ends") == 0 && count == 4)
        unload_slowly(load(words[2]), load(words[3]));
    else
        return 2;
    return 0;
}
