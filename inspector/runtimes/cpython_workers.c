// SPDX-License-Identifier: MIT
// The blocks of a CPython are counted by several threads, which take a few regions at a time: no two processors are equally fast. Each
// thread has its own table of types and its own list of what objects own; the bitmap of blocks is common, and each writes the
// words of its own regions.
#include "base/workers.h"
#include "runtimes/cpython_count.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum {
    LEAST_REGIONS = 16, // for each thread: 4 or 16 MiB
    BATCH_REGIONS = 4,  // that a thread takes at a time
};

struct count_job {
    as_py_counting counting;
    struct as_py_batch *batches;
    size_t batch_count;
    atomic_size_t next; // batch that no thread has taken
};

struct count_worker {
    struct as_py_count part;
    struct count_job *job;
    size_t index;
    struct as_error err;
    bool ok;
};

static bool count_batch(struct count_worker *w, struct as_window *window, size_t index)
{
    size_t first = index * BATCH_REGIONS, left = w->part.region_count - first;
    struct as_py_batch batch = {.list = w->index, .first = w->part.owned.count};
    bool ok = w->job->counting(&w->part, window, first, first + (left < BATCH_REGIONS ? left : BATCH_REGIONS));
    batch.end = w->part.owned.count;
    w->job->batches[index] = batch;
    return ok;
}

static void *run_count_worker(void *context)
{
    struct count_worker *w = context;
    struct as_window window = {0};
    w->ok = as_window_open(&window, w->part.target, &w->err);
    // A region is as large as a window: what is read ahead would begin before it, and end too soon.
    window.processors = 1;
    for (size_t i; w->ok && (i = atomic_fetch_add(&w->job->next, 1)) < w->job->batch_count;)
        w->ok = count_batch(w, &window, i);
    as_window_close(&window);
    return NULL;
}

static size_t workers_for(const struct as_py_count *c)
{
    bool alone = c->visitor || c->target->kind != AS_TARGET_PROCESS;
    long processors = alone ? 1 : sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = c->region_count / LEAST_REGIONS;
    most = most < AS_MOST_WORKERS ? most : AS_MOST_WORKERS;
    most = processors > 0 && (size_t)processors < most ? (size_t)processors : most;
    return most > 0 ? most : 1;
}

static void begin_worker(struct count_worker *w, const struct as_py_count *c, struct count_job *job, size_t index)
{
    *w = (struct count_worker){.part = *c, .job = job, .index = index};
    w->part.err = w->part.types.err = &w->err;
}

// Adds a worker's types to the common table. They have other numbers there.
static bool join_types(struct as_py_count *c, const struct as_py_types *types, struct as_py_owned *list)
{
    bool ok = as_vec_reserve(&list->numbers, types->entries.count, c->err);
    for (size_t i = 0; i < types->entries.count && ok; i++) {
        uint32_t number = as_py_type_join(&c->types, types, (uint32_t)i);
        list->numbers.items[list->numbers.count++] = number; // AS_PY_NO_TYPE: then nothing is believed
        ok = !c->types.failed;
    }
    c->types.overflow |= types->overflow;
    return ok;
}

// Adds what a worker found. The first one's table becomes the common one.
static bool join_worker(struct as_py_count *c, struct count_worker *w, bool ok)
{
    struct as_py_count *part = &w->part;
    struct as_py_owned *list = as_vec_add(&c->lists, NULL); // there is room
    memcpy(&list->items, &part->owned, sizeof list->items);
    if (!w->ok)
        *c->err = w->err;
    ok = ok && w->ok;
    if (w->index == 0) {
        c->types = part->types;
        c->types.err = c->err;
    } else {
        ok = ok && join_types(c, &part->types, list);
        as_py_types_free(&part->types);
    }
    c->other_blocks += part->other_blocks;
    c->other_bytes += part->other_bytes;
    c->gc_objects += part->gc_objects;
    c->collector = part->collector;
    c->changed |= part->changed;
    return ok;
}

bool as_py_count_all(struct as_py_count *c, as_py_counting counting)
{
    struct count_worker workers[AS_MOST_WORKERS];
    struct count_job job = {.counting = counting, .batch_count = (c->region_count + BATCH_REGIONS - 1) / BATCH_REGIONS};
    size_t count = workers_for(c);
    if (!as_vec_reserve(&c->lists, AS_MOST_WORKERS, c->err) || !as_vec_reserve(&c->batches, job.batch_count, c->err))
        return false;
    job.batches = c->batches.items;
    for (size_t i = 0; i < count; i++)
        begin_worker(&workers[i], c, &job, i);
    as_workers_run(run_count_worker, workers, sizeof *workers, count);
    bool ok = true;
    for (size_t i = 0; i < count; i++)
        ok = join_worker(c, &workers[i], ok);
    c->batches.count = ok ? job.batch_count : 0;
    return ok;
}
