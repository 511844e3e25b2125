// SPDX-License-Identifier: MIT
#include "snapshot/crew.h"
#include "base/sort.h"
#include "snapshot/worker.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_WORKERS = 4 }; // more would wait for memory, and take more of ours

struct crew {
    struct as_heaps *heaps;
    struct as_snapshot *snapshot;
    const struct as_arena_hold *hold;

    pthread_mutex_t lock; // of all that follows
    AS_VEC(struct as_share) shares;
    size_t claimed, joined; // of the shares; those in between are at work, or wait for one before them
    size_t next_heap;       // of heaps->heaps: where the next arena's begin
    size_t joined_heaps;    // likewise, of the next share to be joined
    atomic_uint busy;       // workers that are
    bool failed;
    struct as_error err;
};

static void fail(struct crew *c, const struct as_error *err)
{
    if (!c->failed)
        c->err = *err;
    c->failed = true;
}

// The next arena, with what its worker needs of it; NULL: there is none left. Under the lock.
static struct as_share *claim(struct crew *c)
{
    struct as_heaps *h = c->heaps;
    struct as_error err;
    if (c->failed || c->claimed == h->arenas.count)
        return NULL;
    uint32_t arena = (uint32_t)c->claimed;
    struct as_share *s = &c->shares.items[c->claimed++];
    bool ok = !c->hold || c->hold->take(c->hold->context, h, arena, (uint32_t)c->next_heap, &err);
    size_t first = c->next_heap;
    while (ok && c->next_heap < h->heaps.count && h->heaps.items[c->next_heap].arena == arena)
        c->next_heap++;
    s->arena = arena;
    s->heap_count = c->next_heap - first;
    s->in_place = c->joined == arena;
    s->sync_given = h->sync_left;
    s->search_given = h->search_left;
    if (ok && as_heaps_part(h, arena, first, s->heap_count, &s->heaps, &err))
        return s;
    if (ok && c->hold)
        c->hold->release(c->hold->context, h);
    fail(c, &err);
    return NULL;
}

static void spend(uint64_t *budget, uint64_t spent)
{
    *budget -= spent < *budget ? spent : *budget;
}

// Adds a share that is done to the snapshot.
static void join(struct crew *c, struct as_share *s)
{
    struct as_error err;
    size_t heaps = s->heaps.heaps.count;
    struct as_dump_arena *arena = &c->snapshot->arenas.items[s->arena];
    arena->torn_chunks = s->torn;
    arena->first_heap = heaps > 0 ? (uint32_t)c->snapshot->heaps.count : 0;
    arena->heap_count = (uint32_t)heaps;
    c->snapshot->meta.torn_chunks += s->torn;
    bool ok = as_heaps_join(c->heaps, &s->heaps, c->joined_heaps, s->heap_count, &err);
    ok = as_ledger_part_close(c->snapshot, &s->part, &err) && ok;
    if (!ok)
        fail(c, &err);
    c->joined_heaps += heaps;
    c->next_heap += heaps - s->heap_count;
}

// Takes note that a share is done, and joins all whose turn it is. Under the lock.
static void finish(struct crew *c, struct as_share *s, bool ok, const struct as_error *err)
{
    s->done = true;
    spend(&c->heaps->sync_left, s->sync_given - s->heaps.sync_left);
    spend(&c->heaps->search_left, s->search_given - s->heaps.search_left);
    if (!ok)
        fail(c, err);
    while (c->joined < c->claimed && c->shares.items[c->joined].done)
        join(c, &c->shares.items[c->joined++]);
    if (c->hold)
        c->hold->release(c->hold->context, c->heaps);
}

struct thread {
    pthread_t id;
    struct crew *crew;
    struct as_worker worker;
};

static void *work(void *argument)
{
    struct thread *t = argument;
    struct crew *c = t->crew;
    pthread_mutex_lock(&c->lock);
    for (struct as_share *s; (s = claim(c));) {
        pthread_mutex_unlock(&c->lock);
        struct as_error err;
        bool ok = as_worker_walk(&t->worker, s, &err);
        pthread_mutex_lock(&c->lock);
        finish(c, s, ok, &err);
    }
    c->busy--;
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

// Threads are for processes that are not we ourselves; not for one that has memory swapped out, where one processor has to
// do it all (pin, in snapshot.c), nor where chunk records go to a file, which are written in order.
static unsigned worker_count(const struct as_heaps *h, const struct as_ledger_builder *total)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    bool swapped = h->target->swap != 0 && h->target->swap != AS_UNKNOWN;
    if (h->target->kind != AS_TARGET_PROCESS || swapped || total->chunks || processors < 1)
        return 1;
    size_t most = (size_t)processors < MOST_WORKERS ? (size_t)processors : MOST_WORKERS;
    return (unsigned)(most < h->arenas.count ? most : h->arenas.count > 0 ? h->arenas.count : 1);
}

bool as_crew_walk(struct as_heaps *h, struct as_ledger_builder *total, const struct as_arena_hold *hold,
                  struct as_error *err)
{
    struct crew c = {.heaps = h, .snapshot = total->snapshot, .hold = hold};
    struct thread threads[MOST_WORKERS] = {0};
    unsigned wanted = worker_count(h, total);
    unsigned count = 0;
    pthread_mutex_init(&c.lock, NULL);
    // Signals are for the thread that talks to the user.
    sigset_t all, before;
    sigfillset(&all);
    bool ok = as_vec_reserve(&c.shares, h->arenas.count, err);
    c.busy = wanted;
    for (; ok && count < wanted; count++) {
        struct thread *t = &threads[count];
        t->crew = &c;
        ok = as_worker_open(&t->worker, h->target, total, &c.busy, err);
    }
    unsigned started = 1;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (; ok && started < count; started++)
        if (pthread_create(&threads[started].id, NULL, work, &threads[started]) != 0)
            break;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    c.busy -= count - started;
    if (ok)
        work(&threads[0]);
    for (unsigned i = 1; i < started; i++)
        pthread_join(threads[i].id, NULL);
    if (c.failed)
        *err = c.err;
    ok = ok && !c.failed;
    for (unsigned i = 0; i < count; i++)
        ok = as_worker_close(&threads[i].worker, total, ok, err) && ok;
    for (size_t i = c.joined; i < c.claimed; i++) // of a crew that failed
        as_share_free(&c.shares.items[i]);
    as_vec_free(&c.shares);
    pthread_mutex_destroy(&c.lock);
    return ok;
}
