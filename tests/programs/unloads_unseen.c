// SPDX-License-Identifier: MIT
// Unloads a library with an interpreter by an address of dlclose that was copied before anything was recorded, as a deleter in C++ or a binding of
// another language keeps one: only a hook at the entry of dlclose sees it.
//
//   unloads_unseen LIBRARY VARIABLE THEN
//
// VARIABLE is one of the library's, of one page and the next. THEN says what is there afterwards:
//   nothing  what happens to be
//   none     a mapping without access
//   read, write, run   a mapping of the program's own with the same bytes as before, the recorder's hook among them, which may be read, and
//            written, and run
//   used     LIBRARY is a libpython, and runs Python before it is unloaded; afterwards as nothing
// It says what it has done, and does the next thing by each byte that it reads: "ready", "used" or "kept"; "unloaded"; allocates: "allocated"; and ends.
// Ends with 0, and with 1 if anybody has written to the mapping.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACKS = 1 << 12, DEPTH = 12, PAGES = 2 };

static int (*volatile copied_dlclose)(void *);
static unsigned char kept[PAGES << 16];

static void say_and_wait(const char *text)
{
    char byte;
    printf("%s\n", text);
    fflush(stdout);
    while (read(STDIN_FILENO, &byte, 1) != 1)
        _exit(2);
}

static __attribute__((noinline)) void *left(unsigned way, int more);

static __attribute__((noinline)) void *right(unsigned way, int more)
{
    void *volatile block = more == 0 ? malloc(40) : way & 1 ? left(way >> 1, more - 1) : right(way >> 1, more - 1);
    return block;
}

static __attribute__((noinline)) void *left(unsigned way, int more)
{
    void *volatile block = more == 0 ? malloc(50) : way & 1 ? left(way >> 1, more - 1) : right(way >> 1, more - 1);
    return block;
}

// By stacks that were not seen before, and by the same ones again.
static void allocate(void)
{
    for (unsigned i = 0; i < 2 * STACKS; i++)
        free(left(i % STACKS, DEPTH));
}

static void run_python(void *library)
{
    void (*initialise)(int) = (void (*)(int))dlsym(library, "Py_InitializeEx");
    int (*run)(const char *) = (int (*)(const char *))dlsym(library, "PyRun_SimpleString");
    initialise(0);
    usleep(50000); // whether it is initialised is inspected every 10 ms at the earliest
    if (run("def f(n):\n    return [bytes(1000 + i) for i in range(n)]\nkept = f(1000)\n") != 0)
        exit(2);
}

// NULL: there is none.
static void *put_there(void *page, size_t size, const char *then)
{
    const bool none = strcmp(then, "none") == 0, writable = strcmp(then, "write") == 0, run = strcmp(then, "run") == 0;
    if (!none && !writable && !run && strcmp(then, "read") != 0)
        return NULL;
    void *there = mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (there != page)
        exit(2);
    memcpy(there, kept, size);
    int protection = none ? PROT_NONE : writable ? PROT_READ | PROT_WRITE : run ? PROT_READ | PROT_EXEC : PROT_READ;
    mprotect(there, size, protection);
    return there;
}

int main(int count, char **words)
{
    copied_dlclose = dlclose;
    void *library = count == 4 ? dlopen(words[1], RTLD_NOW) : NULL;
    char *variable = library ? dlsym(library, words[2]) : NULL;
    if (!variable) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = PAGES * page;
    char *start = (char *)((uintptr_t)variable & ~(page - 1));
    bool used = strcmp(words[3], "used") == 0;
    say_and_wait("ready");
    free(left(0, DEPTH));
    if (used)
        run_python(library);
    say_and_wait(used ? "used" : "kept");
    memcpy(kept, start, size < sizeof kept ? size : sizeof kept);
    copied_dlclose(library);
    void *there = put_there(start, size, words[3]);
    say_and_wait("unloaded");
    if (!there)
        allocate();
    say_and_wait("allocated");
    if (!there)
        return 0;
    mprotect(there, size, PROT_READ);
    return memcmp(there, kept, size) != 0;
}
