// SPDX-License-Identifier: MIT
#include "trace/account.h"
#include "base/memory.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { WITHOUT_STACK = 1, FIRST_CAPACITY = 1 << 12 };

struct as_trace_block_in_use {
    uint64_t key; // address / 16 + 1; 0: free
    uint64_t size;
    uint64_t time;
    uint32_t site;
    uint32_t thread;
};

uint64_t as_trace_lifetime(size_t i)
{
    uint64_t limit = 1000;
    if (i + 1 >= AS_TRACE_LIFETIMES)
        return UINT64_MAX;
    for (; i > 0; i--)
        limit *= 10;
    return limit;
}

// --- Blocks in use: open addressing, without tombstones ---------------------------------------------------------------

// Whoever chooses the addresses does not know the multipliers: few keys have the same place.
static size_t first_bucket(const struct as_trace_account *a, uint64_t key)
{
    uint64_t mixed = key * a->multipliers[0];
    mixed = (mixed ^ mixed >> 32) * a->multipliers[1];
    return (size_t)(mixed >> 32 & (a->capacity - 1));
}

static void choose_hash(struct as_trace_account *a)
{
    struct timespec now;
    if (getrandom(a->multipliers, sizeof a->multipliers, GRND_NONBLOCK) != (ssize_t)sizeof a->multipliers) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        a->multipliers[0] = UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)now.tv_nsec << 20 ^ (uint64_t)(uintptr_t)&now;
        a->multipliers[1] = UINT64_C(0x9fb21c651e98df25) ^ (uint64_t)now.tv_sec << 24 ^ (uint64_t)now.tv_nsec;
    }
    a->multipliers[0] |= 1;
    a->multipliers[1] |= 1;
}

static struct as_trace_block_in_use *find_block(const struct as_trace_account *a, uint64_t key)
{
    for (size_t at = a->capacity ? first_bucket(a, key) : 0; a->capacity; at = (at + 1) & (a->capacity - 1)) {
        if (a->table[at].key == key)
            return &a->table[at];
        if (a->table[at].key == 0)
            return NULL;
    }
    return NULL;
}

static void place(const struct as_trace_account *a, const struct as_trace_block_in_use *block)
{
    size_t at = first_bucket(a, block->key);
    while (a->table[at].key != 0)
        at = (at + 1) & (a->capacity - 1);
    a->table[at] = *block;
}

static bool make_room(struct as_trace_account *a, struct as_error *err)
{
    if ((a->count + 1) * 4 < a->capacity * 3)
        return true;
    struct as_trace_account larger = {.capacity = a->capacity ? 2 * a->capacity : FIRST_CAPACITY,
                                      .multipliers = {a->multipliers[0], a->multipliers[1]}};
    larger.table = as_memory_map(larger.capacity * sizeof *larger.table, "the blocks in use of a record", err);
    if (!larger.table)
        return false;
    for (size_t i = 0; i < a->capacity; i++)
        if (a->table[i].key != 0)
            place(&larger, &a->table[i]);
    as_memory_unmap(a->table, a->capacity * sizeof *a->table);
    a->table = larger.table;
    a->capacity = larger.capacity;
    return true;
}

// Moves up what stands behind it and would no longer be found.
static void erase(struct as_trace_account *a, struct as_trace_block_in_use *block)
{
    size_t mask = a->capacity - 1, hole = (size_t)(block - a->table);
    for (size_t at = (hole + 1) & mask; a->table[at].key != 0; at = (at + 1) & mask) {
        if (((at - first_bucket(a, a->table[at].key)) & mask) < ((at - hole) & mask))
            continue;
        a->table[hole] = a->table[at];
        hole = at;
    }
    a->table[hole].key = 0;
    a->count--;
}

// --- Sums -------------------------------------------------------------------------------------------------------------

static void add_to_sum(struct as_trace_sum *sum, uint64_t size)
{
    sum->count++;
    sum->bytes += size;
}

static void subtract_from_sum(struct as_trace_sum *sum, uint64_t size)
{
    sum->count--;
    sum->bytes -= size;
}

// Before a site's blocks change: what it had at the peak, if there has been a higher one since its last change.
static void keep_peak(const struct as_trace_account *a, struct as_trace_site *site)
{
    if (site->epoch == a->epoch)
        return;
    site->peak = site->in_use;
    site->epoch = a->epoch;
}

// The part of the time in which this is. Those that have been passed over had what there is now.
static struct as_trace_point *point_at(struct as_trace_account *a, const struct as_trace *r, uint64_t ticks)
{
    uint64_t all = r->last.ticks > r->first.ticks ? r->last.ticks - r->first.ticks : 1;
    uint64_t since = ticks > r->first.ticks ? ticks - r->first.ticks : 0;
    double part = (double)since / (double)all * AS_TRACE_POINTS;
    size_t index = part < AS_TRACE_POINTS ? (size_t)part : AS_TRACE_POINTS - 1;
    while (a->reached < index)
        a->points[++a->reached].most = a->in_use;
    return &a->points[index];
}

static void count_lifetime(struct as_trace_account *a, const struct as_trace *r,
                           const struct as_trace_block_in_use *block, uint64_t ticks)
{
    uint64_t from = as_trace_time(r, block->time), to = as_trace_time(r, ticks);
    size_t i = 0;
    while (from <= to && to - from >= as_trace_lifetime(i) && i + 1 < AS_TRACE_LIFETIMES)
        i++;
    add_to_sum(&a->lifetimes[i], block->size);
}

static void end_block(struct as_trace_account *a, const struct as_trace *r, struct as_trace_block_in_use *block,
                      const struct as_trace_event *e)
{
    struct as_trace_site *site = &a->sites.items[block->site];
    keep_peak(a, site);
    subtract_from_sum(&site->in_use, block->size);
    subtract_from_sum(&a->in_use, block->size);
    if (a->last[e->thread] == block->key && block->thread == e->thread) {
        add_to_sum(&site->temporary, block->size);
        add_to_sum(&a->temporary, block->size);
    }
    count_lifetime(a, r, block, e->time);
    erase(a, block);
}

static void account_free(struct as_trace_account *a, const struct as_trace *r, const struct as_trace_event *e)
{
    struct as_trace_block_in_use *block = find_block(a, (e->address >> 4) + 1);
    a->frees++;
    if (block)
        end_block(a, r, block, e);
    else
        a->unknown_frees++;
}

static bool account_allocation(struct as_trace_account *a, const struct as_trace *r, const struct as_trace_event *e,
                               struct as_error *err)
{
    uint64_t key = (e->address >> 4) + 1;
    struct as_trace_block_in_use *old = find_block(a, key);
    a->last[e->thread] = 0;
    if (e->kind == AS_TRACE_RESIZED) {
        account_free(a, r, e);
    } else if (old) {
        a->replaced++;
        end_block(a, r, old, e);
    }
    a->moved += e->kind == AS_TRACE_MOVED_TO;
    a->resized += e->kind == AS_TRACE_RESIZED;
    if (!make_room(a, err))
        return false;
    struct as_trace_block_in_use block = {
        .key = key, .size = e->size, .time = e->time, .site = e->context, .thread = e->thread};
    if (block.site >= a->sites.count)
        block.site = WITHOUT_STACK;
    struct as_trace_site *site = &a->sites.items[block.site];
    place(a, &block);
    a->count++;
    a->last[e->thread] = key;
    keep_peak(a, site);
    add_to_sum(&site->in_use, e->size);
    add_to_sum(&site->allocated, e->size);
    add_to_sum(&a->in_use, e->size);
    add_to_sum(&a->allocated, e->size);
    if (block.site == WITHOUT_STACK)
        add_to_sum(&a->without_stack, e->size);
    if (a->in_use.bytes > a->peak.bytes) {
        a->peak = a->in_use;
        a->peak_ticks = e->time;
        a->epoch++;
    }
    return true;
}

static bool account_event(struct as_trace_account *a, const struct as_trace *r, const struct as_trace_event *e,
                          struct as_error *err)
{
    struct as_trace_point *point = point_at(a, r, e->time);
    bool frees = e->kind == AS_TRACE_FREE || e->kind == AS_TRACE_MOVED_FROM;
    a->events++;
    if (e->kind == AS_TRACE_MOVED_FROM)
        a->last[e->thread] =
            0; // not temporary, as where it is resized: libc has the new block before it ends the old one
    a->backwards += e->time < a->last_times[e->thread];
    a->last_times[e->thread] = e->time;
    point->allocations += !frees;
    if (frees)
        account_free(a, r, e);
    else if (!account_allocation(a, r, e, err))
        return false;
    if (a->in_use.bytes > point->most.bytes)
        point->most = a->in_use;
    return true;
}

bool as_trace_account(struct as_trace_account *a, struct as_trace *r, struct as_error *err)
{
    struct as_trace_event event;
    memset(a, 0, sizeof *a);
    choose_hash(a);
    size_t sites = r->contexts.count + 2;
    if (!as_vec_reserve(&a->sites, sites, err))
        return false;
    a->sites.count = sites;
    while (as_trace_next(r, &event, err))
        if (!account_event(a, r, &event, err))
            return false;
    point_at(a, r, r->last.ticks);
    for (size_t i = 0; i < sites; i++)
        keep_peak(a, &a->sites.items[i]);
    for (size_t i = 0; i < AS_TRACE_MOST_THREADS; i++) {
        a->threads += r->threads[i].first != 0;
        a->lost_allocations += r->threads[i].lost_allocations;
        a->lost_frees += r->threads[i].lost_frees;
    }
    return err->code == AS_OK;
}

void as_trace_account_free(struct as_trace_account *a)
{
    as_memory_unmap(a->table, a->capacity * sizeof *a->table);
    as_vec_free(&a->sites);
}
