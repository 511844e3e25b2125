// SPDX-License-Identifier: MIT
// Loads a library that cannot be relocated, again and again: what it needs is loaded and relocated before, and libc itself unloads it then,
// without a call of dlclose. Meanwhile another thread loads and unloads another library, so that lists of objects are read anew, and a
// third one allocates.
//
//   loads_in_vain LIBRARY OTHER TIMES    OTHER: allocates.c. Says "ready", begins when it reads a byte, and ends with 0
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { DEPTH = 12 };

static _Atomic bool is_over;

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

static void *allocates(void *unused)
{
    for (unsigned i = 0; !is_over; i++)
        free(left(i, (int)(i % DEPTH)));
    return unused;
}

static void *loads_another(void *path)
{
    while (!is_over) {
        void *other = dlopen(path, RTLD_NOW);
        void *(*allocate)(void) = other ? (void *(*)(void))dlsym(other, "allocates") : NULL;
        if (!allocate)
            exit(2);
        free(allocate());
        dlclose(other);
    }
    return NULL;
}

int main(int count, char **words)
{
    char byte;
    pthread_t threads[2];
    if (count != 4)
        return 2;
    puts("ready");
    fflush(stdout);
    if (read(STDIN_FILENO, &byte, 1) != 1 || pthread_create(&threads[0], NULL, allocates, NULL) != 0 ||
        pthread_create(&threads[1], NULL, loads_another, words[2]) != 0)
        return 2;
    for (int left_over = atoi(words[3]); left_over > 0; left_over--)
        if (dlopen(words[1], RTLD_NOW))
            return 2;
    is_over = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
