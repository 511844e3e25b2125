// SPDX-License-Identifier: MIT
// The blocks of a CPython are counted by several threads. Each has its own table of types and its own list of what objects own; the
// bitmap of blocks is common, and each writes the words of its own regions.
#define _GNU_SOURCE
#include "runtimes/cpython_count.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum {
    MOST_WORKERS = 16,
    LEAST_REGIONS = 16, // for each thread: 4 or 16 MiB
};

struct count_worker {
    struct as_py_count part;
    as_py_counting counting;
    size_t first, end;
    pthread_t id;
    struct as_error err;
    bool ok;
};

static void *work(void *context)
{
    struct count_worker *w = context;
    w->ok = w->counting(&w->part, w->first, w->end);
    return NULL;
}

static size_t workers_for(const struct as_py_count *c)
{
    long processors = c->target->kind == AS_TARGET_PROCESS ? sysconf(_SC_NPROCESSORS_ONLN) : 1;
    size_t most = c->region_count / LEAST_REGIONS;
    most = most < MOST_WORKERS ? most : MOST_WORKERS;
    most = processors > 0 && (size_t)processors < most ? (size_t)processors : most;
    return most > 0 ? most : 1;
}

static void begin(struct count_worker *w, const struct as_py_count *c, as_py_counting counting, size_t index,
                  size_t count)
{
    *w = (struct count_worker){
        .part = *c,
        .counting = counting,
        .first = c->region_count * index / count,
        .end = c->region_count * (index + 1) / count,
    };
    w->part.err = w->part.types.err = &w->err;
}

// Adds what a worker found. The types have other numbers there.
static bool join(struct as_py_count *c, const struct as_py_count *part)
{
    AS_VEC(uint32_t) numbers = {0};
    bool ok = as_vec_reserve(&numbers, part->types.entries.count, c->err) &&
              as_vec_reserve(&c->owned, part->owned.count, c->err);
    for (size_t i = 0; i < part->types.entries.count && ok; i++) {
        numbers.items[i] = as_py_type_join(&c->types, &part->types, (uint32_t)i);
        ok = !c->types.failed;
    }
    c->types.overflow |= part->types.overflow;
    for (size_t i = 0; i < part->owned.count && ok && !c->types.overflow; i++) {
        uint64_t owned = part->owned.items[i], type = owned & (AS_PY_MOST_TYPES - 1);
        c->owned.items[c->owned.count++] = owned - type + numbers.items[type];
    }
    c->other_blocks += part->other_blocks;
    c->other_bytes += part->other_bytes;
    c->gc_objects += part->gc_objects;
    c->changed |= part->changed;
    as_vec_free(&numbers);
    return ok;
}

// The first worker's table and list are taken as they are, the others' are added.
static bool finish(struct as_py_count *c, struct count_worker *w, bool first, bool ok)
{
    if (!w->ok)
        *c->err = w->err;
    ok = ok && w->ok;
    if (first) {
        struct as_error *err = c->err;
        *c = w->part;
        c->err = c->types.err = err;
        return ok;
    }
    ok = ok && join(c, &w->part);
    as_py_types_free(&w->part.types);
    as_vec_free(&w->part.owned);
    return ok;
}

bool as_py_count_all(struct as_py_count *c, as_py_counting counting)
{
    struct count_worker workers[MOST_WORKERS];
    size_t count = workers_for(c), started = 1;
    for (size_t i = 0; i < count; i++)
        begin(&workers[i], c, counting, i, count);
    // Signals are for the thread that talks to the user.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < count && pthread_create(&workers[started].id, NULL, work, &workers[started]) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    work(&workers[0]);
    for (size_t i = started; i < count; i++) // no thread could be started
        work(&workers[i]);
    bool ok = true;
    for (size_t i = 1; i < started; i++)
        pthread_join(workers[i].id, NULL);
    for (size_t i = 0; i < count; i++)
        ok = finish(c, &workers[i], i == 0, ok);
    return ok;
}
