// SPDX-License-Identifier: MIT
// A service that does all day long what is hard for a recorder, and checks each of its blocks.
//
//   service COUNTS SECONDS LIVES FIRST SECOND FUNCTION [child]
//
// At the same time threads
//   - allocate, and are interrupted by signals whose handlers allocate too (on another stack in every second thread), or leave by
//     siglongjmp;
//   - start other threads, which free what others have allocated;
//   - fork: children go on with the parent's blocks, and fork, start threads, or execute this program (`child`); or it is spawned;
//   - switch to coroutines, which go from thread to thread;
//   - load and unload the libraries FIRST and SECOND, whose FUNCTION allocates.
//
// After SECONDS (a life) the program executes itself, with all threads at work; after so many LIVES it ends instead. COUNTS is a file
// of counters that all its processes share (service.h). Exit code 0: no block was harmed.
#define _GNU_SOURCE
#include "service.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Atomic uint64_t *counts;
atomic_bool stopping;
char *words[WORDS + 2];
size_t word_count;

static void *libraries(void *argument)
{
    char **paths = argument;
    while (!stopping) {
        for (unsigned i = 0; i < 2; i++) {
            void *library = dlopen(paths[i], RTLD_NOW);
            void *(*function)(void) = library ? (void *(*)(void))(uintptr_t)dlsym(library, paths[2]) : NULL;
            if (!function)
                harmed(dlerror());
            free(function());
            if (dlclose(library) != 0)
                harmed("dlclose");
            count(LIBRARIES, 1);
        }
        usleep(5000);
    }
    return NULL;
}

static void read_command(void)
{
    static char text[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    for (char *at = text; at < text + size && word_count < WORDS; at += strlen(at) + 1)
        words[word_count++] = at;
}

static void share_counts(const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, COUNTERS * sizeof *counts) != 0)
        harmed("the file of counts");
    counts = mmap(NULL, COUNTERS * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
}

static int be_executed(void)
{
    struct short_life lives[2] = {{.state = (unsigned)getpid()}, {.state = 1}};
    live_shortly(lives, 2);
    count(PROGRAMS, 1);
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t thread[STORMS + 8];
    size_t n = 0;
    read_command();
    share_counts(argv[1]);
    if (argc > 7)
        return be_executed();
    uint64_t life = atomic_fetch_add(&counts[LIVES], 1) + 1;
    handle_signals();
    for (; n < STORMS; n++)
        pthread_create(&thread[n], NULL, storm, (void *)(uintptr_t)(n + life * STORMS));
    for (; n < INTERRUPTED; n++)
        pthread_create(&thread[n], NULL, coroutines, (void *)(uintptr_t)(n + life));
    memcpy(interrupted, thread, sizeof interrupted);
    pthread_create(&thread[n++], NULL, starts, (void *)(uintptr_t)life);
    pthread_create(&thread[n++], NULL, forks, (void *)(uintptr_t)life);
    pthread_create(&thread[n++], NULL, libraries, &argv[4]);
    pthread_create(&thread[n++], NULL, signals, NULL); // the last to be started, and the first to be over
    if (life == 1) {
        puts("ready");
        fflush(stdout);
    }
    usleep((useconds_t)(atof(argv[2]) * 1e6));
    if (life < (uint64_t)atoi(argv[3])) {
        execv("/proc/self/exe", words);
        harmed("execv");
    }
    stopping = true;
    while (n > 0)
        pthread_join(thread[--n], NULL);
    return 0;
}
