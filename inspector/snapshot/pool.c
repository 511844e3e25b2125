// SPDX-License-Identifier: MIT
#include "malloc/find.h"
#include "snapshot/steps.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORKERS = 4 }; // more would wait for memory, and take more of ours

struct pool {
    struct as_heaps *heaps;
    struct as_store *store;
    const struct as_arena_hold *hold;

    pthread_mutex_t lock; // of all that follows
    AS_VEC(struct as_arena_job) shares;
    size_t claimed, joined; // of the shares; those in between are at work, or wait for one before them
    size_t next_heap;       // of heaps->heaps: where the next arena's begin
    size_t joined_heaps;    // likewise, of the next share to be joined
    atomic_uint busy;       // workers that are
    bool failed;
    struct as_error err;
};

static void fail(struct pool *pool, const struct as_error *err)
{
    if (!pool->failed)
        pool->err = *err;
    pool->failed = true;
}

// The next arena, with what its worker needs of it; NULL: there is none left. Under the lock.
static struct as_arena_job *claim(struct pool *pool)
{
    struct as_heaps *h = pool->heaps;
    struct as_error err;
    if (pool->failed || pool->claimed == h->arenas.count)
        return NULL;
    uint32_t arena = (uint32_t)pool->claimed;
    struct as_arena_job *s = &pool->shares.items[pool->claimed++];
    bool ok = !pool->hold || pool->hold->take(pool->hold->context, h, arena, (uint32_t)pool->next_heap, &err);
    size_t first = pool->next_heap;
    while (ok && pool->next_heap < h->heaps.count && h->heaps.items[pool->next_heap].arena == arena)
        pool->next_heap++;
    s->arena = arena;
    s->heap_count = pool->next_heap - first;
    s->in_place = pool->joined == arena;
    s->sync_given = h->resync_budget;
    s->search_given = h->search_budget;
    if (ok && as_heaps_split(h, arena, first, s->heap_count, &s->heaps, &err))
        return s;
    if (ok && pool->hold)
        pool->hold->release(pool->hold->context, h);
    fail(pool, &err);
    return NULL;
}

static void spend(uint64_t *budget, uint64_t spent)
{
    *budget -= spent < *budget ? spent : *budget;
}

// Adds a share that is done to the store.
static void join_share(struct pool *pool, struct as_arena_job *s)
{
    struct as_error err;
    size_t heaps = s->heaps.heaps.count;
    struct as_arena_record *arena = &pool->store->arenas.items[s->arena];
    arena->torn_chunks = s->torn;
    arena->first_heap = heaps > 0 ? (uint32_t)pool->store->heaps.count : 0;
    arena->heap_count = (uint32_t)heaps;
    pool->store->meta.torn_chunks += s->torn;
    bool ok = as_heaps_join(pool->heaps, &s->heaps, pool->joined_heaps, s->heap_count, &err);
    ok = as_ledger_partial_close(pool->store, &s->part, &err) && ok;
    if (!ok)
        fail(pool, &err);
    pool->joined_heaps += heaps;
    pool->next_heap += heaps - s->heap_count;
}

// Takes note that a share is done, and joins all whose turn it is. Under the lock.
static void finish_share(struct pool *pool, struct as_arena_job *s, bool ok, const struct as_error *err)
{
    s->done = true;
    spend(&pool->heaps->resync_budget, s->sync_given - s->heaps.resync_budget);
    spend(&pool->heaps->search_budget, s->search_given - s->heaps.search_budget);
    if (!ok)
        fail(pool, err);
    while (pool->joined < pool->claimed && pool->shares.items[pool->joined].done)
        join_share(pool, &pool->shares.items[pool->joined++]);
    if (pool->hold)
        pool->hold->release(pool->hold->context, pool->heaps);
}

struct thread {
    pthread_t id;
    struct pool *pool;
    struct as_worker worker;
};

static void *run_pool_worker(void *argument)
{
    struct thread *t = argument;
    struct pool *pool = t->pool;
    pthread_mutex_lock(&pool->lock);
    for (struct as_arena_job *s; (s = claim(pool));) {
        pthread_mutex_unlock(&pool->lock);
        struct as_error err;
        bool ok = as_worker_walk(&t->worker, s, &err);
        pthread_mutex_lock(&pool->lock);
        finish_share(pool, s, ok, &err);
    }
    pool->busy--;
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

// Threads are for processes that are not we ourselves; not for one that has memory swapped out, where one processor has to
// do it all (pin, in snapshot.c), nor where chunk records go to a file, which are written in order.
static unsigned worker_count(const struct as_heaps *h, const struct as_ledger_builder *total)
{
    if (as_target_is_self(h->target))
        return 1;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    bool swapped = h->target->counts.swap != 0 && h->target->counts.swap != AS_UNKNOWN;
    if (h->target->kind != AS_TARGET_PROCESS || swapped || total->chunks || processors < 1)
        return 1;
    size_t most = (size_t)processors < MOST_WORKERS ? (size_t)processors : MOST_WORKERS;
    return (unsigned)(most < h->arenas.count ? most : h->arenas.count > 0 ? h->arenas.count : 1);
}

bool as_pool_walk(struct as_heaps *h, struct as_ledger_builder *total, const struct as_arena_hold *hold,
                  struct as_error *err)
{
    struct pool pool = {.heaps = h, .store = total->store, .hold = hold};
    struct thread threads[MOST_WORKERS] = {0};
    unsigned wanted = worker_count(h, total);
    unsigned count = 0;
    pthread_mutex_init(&pool.lock, NULL);
    // Signals are for the thread that talks to the user.
    sigset_t all, before;
    sigfillset(&all);
    bool ok = as_vec_reserve(&pool.shares, h->arenas.count, err);
    pool.busy = wanted;
    for (; ok && count < wanted; count++) {
        struct thread *t = &threads[count];
        t->pool = &pool;
        ok = as_worker_open(&t->worker, h->target, total, &pool.busy, err);
    }
    unsigned started = 1;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; ok && started < count; started++)
        if (pthread_create(&threads[started].id, NULL, run_pool_worker, &threads[started]) != 0)
            break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pool.busy -= count - started;
    if (ok)
        run_pool_worker(&threads[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i].id, NULL);
    if (pool.failed)
        *err = pool.err;
    ok = ok && !pool.failed;
    for (unsigned i = 0; i < count; i++)
        ok = as_worker_close(&threads[i].worker, total, ok, err) && ok;
    for (size_t i = pool.joined; i < pool.claimed; i++) // of a pool that failed
        as_arena_job_free(&pool.shares.items[i]);
    as_vec_free(&pool.shares);
    pthread_mutex_destroy(&pool.lock);
    return ok;
}
