// SPDX-License-Identifier: MIT
// Loads a library with an interpreter (forged_libpython.c), and unloads it, where the recorder may be about to call it.
//
//   unloads HOW LIBRARY [OTHER]
//
// HOW:
//   told   allocates; unloads it when it reads a byte, and says so; ends when there is nothing to be read any more
//   races  unloads it while another thread is in Py_IsInitialized, and goes on when it sees that the first one sleeps
//   stuck  the same, but the other one never goes on; twice
//   loads  LIBRARY needs a library of slow_relocation.c: meanwhile another thread allocates, by OTHER (allocates.c) for the first time, and
//          by new stacks until Py_IsInitialized is called
//   ends   by each byte that it reads: allocates below LIBRARY; begins to unload OTHER (slow_ending.c); goes on with that; ends. It says so
// Ends with 0; 2: it could not do so; 3: Py_IsInitialized was never called.
#define _GNU_SOURCE
#include "unloads.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { DIFFERENT = 12, NAP_US = 5000 };

static pid_t first, second;
static _Atomic bool is_inside, is_closing, is_over, is_stuck;
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

// Without a function that allocates.
static bool sleeps(pid_t thread)
{
    char name[64], text[256] = "";
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", thread);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    const char *end = got > 0 ? strrchr(text, ')') : NULL;
    return end && end[1] == ' ' && end[2] == 'S';
}

// In Py_IsInitialized, which the recorder has called for an allocation of this thread.
static void called(void)
{
    if (syscall(SYS_gettid) != second || is_inside)
        return;
    is_inside = true;
    while (is_stuck)
        pause();
    while (!is_closing || !sleeps(first))
        sched_yield();
}

static void *allocates(void *unused)
{
    second = (pid_t)syscall(SYS_gettid);
    while (!is_over)
        free(malloc(100));
    return unused;
}

static void unload_meanwhile(void *library)
{
    pthread_t thread;
    kept = user_of(library, "use")(); // from here on it is known
    SHARED->called = called;
    pthread_create(&thread, NULL, allocates, NULL);
    while (!is_inside)
        sched_yield();
    is_closing = true;
    dlclose(library);
    is_over = true;
    if (!is_stuck)
        pthread_join(thread, NULL);
}

static __attribute__((noinline)) void *left(unsigned way, int more);

static __attribute__((noinline)) void *right(unsigned way, int more)
{
    void *volatile block = more == 0 ? malloc(100) : way & 1 ? left(way >> 1, more - 1) : right(way >> 1, more - 1);
    return block;
}

static __attribute__((noinline)) void *left(unsigned way, int more)
{
    void *volatile block = more == 0 ? malloc(200) : way & 1 ? left(way >> 1, more - 1) : right(way >> 1, more - 1);
    return block;
}

static user *other_allocates; // dlsym would wait for dlopen

static void *allocates_meanwhile(void *unused)
{
    while (!SHARED->relocating)
        sched_yield();
    kept = other_allocates();
    SHARED->go_on = 1;
    for (unsigned i = 0; i < 1 << DIFFERENT && SHARED->calls == 0; i++) {
        kept = left(i, DIFFERENT);
        usleep(NAP_US);
    }
    return unused;
}

static void load_meanwhile(const char *path, const char *other)
{
    pthread_t thread;
    other_allocates = user_of(load(other), "allocates");
    pthread_create(&thread, NULL, allocates_meanwhile, NULL);
    load(path);
    pthread_join(thread, NULL);
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
    first = getpid();
    if (page != SHARED)
        return 2;
    if (strcmp(how, "told") == 0) {
        wait_for_word(load(words[2]));
        return 0;
    }
    if (strcmp(how, "ends") == 0 && count == 4) {
        unload_slowly(load(words[2]), load(words[3]));
    } else if (strcmp(how, "loads") == 0 && count == 4) {
        load_meanwhile(words[2], words[3]);
    } else if (strcmp(how, "races") == 0) {
        unload_meanwhile(load(words[2]));
    } else if (strcmp(how, "stuck") == 0) {
        is_stuck = true;
        unload_meanwhile(load(words[2]));
        void *again = load(words[2]);
        kept = user_of(again, "use")();
        dlclose(again);
    } else {
        return 2;
    }
    return SHARED->calls > 0 ? 0 : 3;
}
