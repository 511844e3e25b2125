// SPDX-License-Identifier: MIT
// Threads that do the same at the same time: none begins before all are there.
#pragma once

#include "support/check.h"

#include <pthread.h>

struct together {
    pthread_t thread;
    pthread_barrier_t *barrier;
    void *(*function)(void *);
    void *argument;
};

static void *together_begin(void *one)
{
    const struct together *t = one;
    pthread_barrier_wait(t->barrier);
    return t->function(t->argument);
}

// Runs function(arguments[i]) in `count` threads. What each returns stands in place of its argument.
static inline void in_threads(unsigned count, void *(*function)(void *), void **arguments)
{
    pthread_barrier_t barrier;
    struct together *threads = calloc(count, sizeof *threads);
    CHECK(threads && pthread_barrier_init(&barrier, NULL, count) == 0);
    for (unsigned i = 0; i < count; i++) {
        threads[i] = (struct together){.barrier = &barrier, .function = function, .argument = arguments[i]};
        CHECK(pthread_create(&threads[i].thread, NULL, together_begin, &threads[i]) == 0);
    }
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_join(threads[i].thread, &arguments[i]) == 0);
    pthread_barrier_destroy(&barrier);
    free(threads);
}
