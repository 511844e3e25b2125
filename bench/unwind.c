// SPDX-License-Identifier: MIT
// The tables of the libraries that the arguments name and of what they need: made, and taken from the cache in a new directory; then
// a stack of 36 frames, unwound by them and by glibc. A line for each of 20 runs: rows, then nanoseconds of the four.
#include "unwind/unwind.h"
#include "base/clock.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUNS = 20, FRAMES = 36, TURNS = 2000, ENTRIES = 4096 };

static struct as_unwind_modules *modules;
static struct as_unwind_cache *rules;
static uintptr_t end;
static double ours, glibcs;

static __attribute__((noinline)) size_t unwind_here(void)
{
    uintptr_t pcs[FRAMES * 2];
    uintptr_t slots[FRAMES * 2];
    bool complete;
    struct as_unwind_registers start = AS_UNWIND_CALLER();
    struct as_unwind_stacks stacks = {.end = end};
    return as_unwind_stack(modules, &start, &stacks, rules, pcs, slots, FRAMES * 2, &complete) * complete;
}

static __attribute__((noinline)) int deep(int depth) // NOLINT(misc-no-recursion)
{
    void *addresses[FRAMES * 2];
    if (depth > 0) {
        int below = deep(depth - 1);
        __asm__ volatile("" ::: "memory"); // else the compiler makes a loop of it
        return below + 1;
    }
    if (unwind_here() != FRAMES)
        fprintf(stderr, "unwind: %zu frames, not %d\n", unwind_here(), FRAMES);
    double start = as_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < TURNS; i++)
        unwind_here();
    double middle = as_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < TURNS; i++)
        backtrace(addresses, FRAMES);
    glibcs = (as_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - middle) / TURNS;
    ours = (middle - start) / TURNS;
    return 0;
}

static double load(const char *directory, uint64_t *rows)
{
    double start = as_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    struct as_unwind_modules *loaded = as_unwind_modules_load(NULL, directory);
    double took = as_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
    *rows = 0;
    for (size_t i = 0; loaded && i < loaded->count; i++)
        *rows += loaded->items[i].table.head ? loaded->items[i].table.head->rows : 0;
    as_unwind_modules_free(loaded, NULL);
    return took;
}

int main(int count, char **names)
{
    char directory[] = "/tmp/arenascope-bench-XXXXXX";
    char command[64];
    uint64_t rows;
    for (int i = 1; i < count; i++)
        if (!dlopen(names[i], RTLD_LAZY))
            fprintf(stderr, "unwind: %s\n", dlerror());
    if (!mkdtemp(directory))
        return 1;
    load(directory, &rows);
    modules = as_unwind_modules_load(NULL, NULL);
    rules = calloc(1, AS_UNWIND_CACHE_BYTES(ENTRIES));
    if (!modules || !rules)
        return 1;
    rules->mask = ENTRIES - 1;
    end = (uintptr_t)names; // all frames are below main's
    for (int run = 0; run < RUNS; run++) {
        double made = load(NULL, &rows);
        double cached = load(directory, &rows);
        deep(FRAMES - 4); // main and what calls it
        printf("%lu %.0f %.0f %.1f %.1f\n", (unsigned long)rows, made, cached, ours, glibcs);
    }
    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command); // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}
