// SPDX-License-Identifier: MIT
// Allocates where the recorder takes the loader's lock, and leaves it in an odd way. Then another thread loads a library, and allocates by it.
//
//   left_behind HOW LIBRARY OTHER FILE
//
// HOW: "callback": by LIBRARY (allocates.c), in a callback of dl_iterate_phdr: this thread has the lock already, and keeps it. "jump": a
// signal comes when the recorder searches for LIBRARY's table in its cache, and its handler leaves by siglongjmp. FILE gets the PID.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 20 };

typedef void *user(void);

static void *volatile kept[BLOCKS + 1];
static sigjmp_buf way;
static volatile sig_atomic_t armed, left;

int openat(int directory, const char *name, int flags, ...);
int openat64(int directory, const char *name, int flags, ...);

// Also the recorder's.
int openat(int directory, const char *name, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    if (armed && strstr(name, ".unwind")) {
        armed = 0;
        raise(SIGUSR1);
    }
    return (int)syscall(SYS_openat, directory, name, flags, mode);
}

int openat64(int directory, const char *name, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    int mode = va_arg(rest, int);
    va_end(rest);
    return openat(directory, name, flags, mode);
}

static void leave(int signal)
{
    (void)signal;
    left = 1;
    siglongjmp(way, 1);
}

static user *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW);
    if (!library)
        exit(2);
    return (user *)dlsym(library, "allocates");
}

static int inside(struct dl_phdr_info *info, size_t size, void *allocates)
{
    (void)info;
    (void)size;
    kept[BLOCKS] = (*(user **)allocates)();
    return 1;
}

static __attribute__((noinline)) void in_other_thread(user *allocates)
{
    for (int i = 0; i < BLOCKS; i++)
        kept[i] = allocates();
}

static void *loads(void *path)
{
    in_other_thread(load(path));
    return NULL;
}

int main(int count, char **words)
{
    pthread_t thread;
    struct sigaction action = {.sa_handler = leave};
    if (count != 5)
        return 2;
    user *allocates = load(words[2]);
    if (strcmp(words[1], "callback") == 0) {
        dl_iterate_phdr(inside, &allocates);
    } else {
        sigaction(SIGUSR1, &action, NULL);
        armed = 1;
        if (sigsetjmp(way, 1) == 0)
            kept[BLOCKS] = allocates();
        if (!left)
            return 3;
    }
    pthread_create(&thread, NULL, loads, words[3]);
    pthread_join(thread, NULL);
    FILE *out = fopen(words[4], "w");
    fprintf(out, "end %d\n", getpid());
    fclose(out);
    for (;;)
        pause();
}
