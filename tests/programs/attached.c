// SPDX-License-Identifier: MIT
// Threads that allocate as fast as they can and check what they have, while a recorder is switched on and off around them.
//
//   attached [threads N] [forks] [execs PROGRAM] [cancels LIBRARY FUNCTION] [plugins FIRST SECOND FUNCTION COUNT FILE]...
//
// With cancels, thread after thread that is to be cancelled loads the library, has it allocate, and unloads it: none of these is a
// cancellation point.
//
// With execs, a thread starts the program again and again, in children of fork() that allocate before.
//
// With plugins, a thread loads the two libraries by turns and unloads them again; each allocates a block. When FILE appears, these
// blocks are kept, COUNT of them, and FILE gets how many each has allocated. SIGTERM: exit code 0 if all is well.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 64, MOST_THREADS = 64, KEPT = 1000 };

static atomic_bool stopping;
static atomic_ulong blocks;

static void harmed(const char *what)
{
    fprintf(stderr, "harmed: %s\n", what);
    abort();
}

static unsigned draw(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static void check(const unsigned char *block, size_t size, unsigned char fill)
{
    if (block[0] != fill || block[size / 2] != fill || block[size - 1] != fill)
        harmed("a block has changed");
}

static void *storm(void *seed)
{
    unsigned state = (unsigned)(uintptr_t)seed;
    unsigned char *block[SLOTS] = {0};
    size_t size[SLOTS];
    unsigned char fill[SLOTS];
    while (!stopping) {
        unsigned at = draw(&state) % SLOTS;
        unsigned how = draw(&state) % 8;
        size_t wanted = 1 + draw(&state) % (how == 0 ? 200000 : 600);
        if (block[at])
            check(block[at], size[at], fill[at]);
        if (how == 1) {
            size_t kept = block[at] && size[at] < wanted ? size[at] : wanted;
            block[at] = realloc(block[at], wanted);
            if (block[at] && kept == size[at])
                check(block[at], kept, fill[at]);
        } else {
            free(block[at]);
            block[at] = how == 2   ? calloc(1, wanted)
                        : how == 3 ? memalign(64, wanted)
                        : how == 4 ? aligned_alloc(32, (wanted + 31) & ~(size_t)31)
                                   : malloc(wanted);
        }
        if (!block[at])
            harmed("no memory");
        size[at] = wanted;
        fill[at] = (unsigned char)draw(&state);
        memset(block[at], fill[at], wanted);
        atomic_fetch_add(&blocks, 1);
    }
    for (unsigned i = 0; i < SLOTS; i++)
        free(block[i]);
    return NULL;
}

// With a program, the child becomes it.
static void *forks(void *program)
{
    while (!stopping) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            unsigned char *memory = malloc(100);
            memset(memory, 1, 100);
            memory = realloc(memory, 100000);
            check(memory, 100, 1);
            free(memory);
            if (program)
                execl(program, program, (char *)NULL);
            _exit(program ? 1 : 0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            harmed("a child of fork");
        usleep(2000);
    }
    return NULL;
}

// A plugin's block.
static void *use(const char *path, const char *function)
{
    void *library = dlopen(path, RTLD_NOW);
    void *(*allocate)(void) = library ? (void *(*)(void))(uintptr_t)dlsym(library, function) : NULL;
    if (!allocate)
        harmed(dlerror());
    void *memory = allocate();
    if (dlclose(library) != 0)
        harmed("dlclose");
    return memory;
}

static void *plugins(void *argument)
{
    static void *all_kept[KEPT];
    static atomic_int all_count;
    char **words = argument;
    const char *file = words[4];
    int limit = atoi(words[3]), count = 0;
    bool keeping = false;
    for (int i = 0; !stopping && count < limit; i++) {
        keeping = keeping || (i % 2 == 0 && access(file, F_OK) == 0);
        void *memory = use(words[i % 2], words[2]);
        if (!keeping) {
            free(memory);
            continue;
        }
        all_kept[all_count++ % KEPT] = memory;
        count++;
    }
    if (count < limit)
        return NULL;
    FILE *out = fopen(file, "w");
    fprintf(out, "end %d %d\n", (limit + 1) / 2, limit / 2);
    fclose(out);
    return all_kept;
}

struct cancelled {
    char **words;
    atomic_bool is_through;
};

static void *cancelled(void *argument)
{
    struct cancelled *c = argument;
    pthread_cancel(pthread_self());
    free(use(c->words[0], c->words[1]));
    c->is_through = true;
    pthread_testcancel();
    harmed("a thread was not cancelled");
    return NULL;
}

static void *cancels(void *words)
{
    while (!stopping) {
        struct cancelled c = {.words = words};
        pthread_t thread;
        if (pthread_create(&thread, NULL, cancelled, &c) != 0 || pthread_join(thread, NULL) != 0 || !c.is_through)
            harmed("a thread was cancelled too early");
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread[MOST_THREADS + 8];
    size_t count = 0;
    sigset_t end;
    int got;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &end, NULL);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "threads") == 0) {
            for (int n = atoi(argv[++i]); n > 0 && count < MOST_THREADS; n--, count++)
                pthread_create(&thread[count], NULL, storm, (void *)(uintptr_t)(count + 1));
        } else if (strcmp(argv[i], "forks") == 0) {
            pthread_create(&thread[count++], NULL, forks, NULL);
        } else if (strcmp(argv[i], "execs") == 0) {
            pthread_create(&thread[count++], NULL, forks, argv[++i]);
        } else if (strcmp(argv[i], "cancels") == 0) {
            pthread_create(&thread[count++], NULL, cancels, &argv[i + 1]);
            i += 2;
        } else if (strcmp(argv[i], "plugins") == 0) {
            pthread_create(&thread[count++], NULL, plugins, &argv[i + 1]);
            i += 5;
        }
    }
    puts("ready");
    fflush(stdout);
    sigwait(&end, &got);
    stopping = true;
    for (size_t i = 0; i < count; i++)
        pthread_join(thread[i], NULL);
    printf("%lu\n", (unsigned long)blocks);
    return 0;
}
