// SPDX-License-Identifier: MIT
// Allocates with a lock for which a callback of dl_iterate_phdr waits, in another thread: until malloc has returned, the loader's lock is
// held.
//
//   callback HOW LIBRARY FILE
//
// HOW: "code": malloc is called by code of no module; "thread": meanwhile another thread is in dlclose; "self": this thread has called
// dlclose, which has unloaded nothing. Then FILE gets how many blocks were allocated with the lock, and how many afterwards.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 50, SIZE = 3000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool is_called;
static void *kept[2][BLOCKS];

static int waits(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)info;
    (void)size;
    (void)context;
    is_called = true;
    pthread_mutex_lock(&lock);
    pthread_mutex_unlock(&lock);
    return 1;
}

static void *iterates(void *unused)
{
    dl_iterate_phdr(waits, NULL);
    return unused;
}

static _Atomic pid_t closer;

static void *closes(void *library)
{
    closer = (pid_t)syscall(SYS_gettid);
    dlclose(library);
    return NULL;
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

// Each depth is another stack.
static __attribute__((noinline)) void *deep(int depth, void *(*allocate)(size_t))
{
    void *volatile block = depth > 0 ? deep(depth - 1, allocate) : allocate(SIZE);
    return block;
}

static __attribute__((noinline)) void with_lock(void *(*allocate)(size_t))
{
    for (int i = 0; i < BLOCKS; i++)
        kept[0][i] = deep(i, allocate);
}

static __attribute__((noinline)) void afterwards(void)
{
    for (int i = 0; i < BLOCKS; i++)
        kept[1][i] = deep(i, malloc);
}

// malloc, called by code in a mapping of no file.
static void *(*make_code(void))(size_t)
{
#if defined(__x86_64__)
    uint8_t code[] = {0x48, 0x83, 0xec, 8, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3};
    void *(*real)(size_t) = malloc;
    memcpy(code + 6, &real, sizeof real);
    void *at = mmap(NULL, sizeof code, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(at, code, sizeof code);
    mprotect(at, sizeof code, PROT_READ | PROT_EXEC);
    return (void *(*)(size_t))(uintptr_t)at;
#else
    return malloc;
#endif
}

int main(int argc, char **argv)
{
    pthread_t thread[2];
    int count = 0;
    const char *how = argv[1];
    void *library = dlopen(argv[2], RTLD_NOW);
    if (argc != 4 || !library)
        return 2;
    if (strcmp(how, "self") == 0)
        dlopen(argv[2], RTLD_NOW);
    void *(*allocate)(size_t) = strcmp(how, "code") == 0 ? make_code() : malloc;
    pthread_mutex_lock(&lock);
    pthread_create(&thread[count++], NULL, iterates, NULL);
    while (!is_called)
        usleep(1000);
    if (strcmp(how, "thread") == 0) {
        pthread_create(&thread[count++], NULL, closes, library);
        while (!closer || !sleeps(closer)) // in dlclose: the loader's lock is held
            usleep(1000);
    } else if (strcmp(how, "self") == 0) {
        dlclose(library);
    }
    with_lock(allocate);
    pthread_mutex_unlock(&lock);
    while (count > 0)
        pthread_join(thread[--count], NULL);
    afterwards();
    FILE *out = fopen(argv[3], "w");
    fprintf(out, "end %d %d %d\n", getpid(), BLOCKS, BLOCKS);
    fclose(out);
    for (;;)
        pause();
}
