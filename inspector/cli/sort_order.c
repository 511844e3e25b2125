// SPDX-License-Identifier: MIT
#include "cli/summary/summary.h"
#include "ledger/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// calloc for `count` + `more` items of a view, which may be a hostile dump's.
static void *allocate(uint64_t count, uint64_t more, size_t item_size, struct as_error *err)
{
    void *items = count < UINT32_MAX ? calloc(count + more, item_size) : NULL;
    if (!items)
        as_fail(err, AS_NO_MEMORY, "no memory to sort %" PRIu64 " records", count);
    return items;
}

bool as_arena_threads_sort(struct as_arena_threads *t, const struct as_view *v, struct as_error *err)
{
    t->first = allocate(v->arena_count, 2, sizeof *t->first, err);
    t->order = t->first ? allocate(v->thread_count, 1, sizeof *t->order, err) : NULL;
    if (!t->order)
        return false;
    // A counting sort, which keeps the threads' own order. Arena a's threads are counted in first[a + 2]; summed up,
    // first[a + 1] is where its first one goes, and, once they are all placed, where the next arena's begin.
    for (uint64_t i = 0; i < v->thread_count; i++) {
        if (v->threads[i].arena < v->arena_count)
            t->first[(uint64_t)v->threads[i].arena + 2]++;
    }
    for (uint64_t a = 1; a <= v->arena_count + 1; a++)
        t->first[a] += t->first[a - 1];
    for (uint64_t i = 0; i < v->thread_count; i++) {
        if (v->threads[i].arena < v->arena_count)
            t->order[t->first[v->threads[i].arena + 1]++] = (uint32_t)i;
    }
    return true;
}

void as_arena_threads_free(struct as_arena_threads *t)
{
    free(t->first);
    free(t->order);
}

static int by_stranded(const void *a, const void *b, void *context)
{
    const struct as_view *v = context;
    const struct as_size_record *x = &v->sizes[*(const uint32_t *)a], *y = &v->sizes[*(const uint32_t *)b];
    uint64_t x_bytes = as_add(x->pin_stranded, x->tail_bytes), y_bytes = as_add(y->pin_stranded, y->tail_bytes);
    if (x_bytes != y_bytes)
        return x_bytes < y_bytes ? 1 : -1;
    return x->chunk_size < y->chunk_size ? -1 : x->chunk_size > y->chunk_size;
}

bool as_pins_sort(struct as_pins *p, const struct as_view *v, struct as_error *err)
{
    p->order = allocate(v->size_count, 1, sizeof *p->order, err);
    if (!p->order)
        return false;
    for (uint64_t i = 0; i < v->size_count; i++) {
        if (v->sizes[i].pin_count || v->sizes[i].tail_count)
            p->order[p->count++] = (uint32_t)i;
    }
    qsort_r(p->order, p->count, sizeof *p->order, by_stranded, (void *)v);
    return true;
}

void as_pins_free(struct as_pins *p)
{
    free(p->order);
}

void as_largest_offer(struct as_largest *l, uint64_t index, uint64_t value)
{
    uint32_t at = l->count;
    while (at > 0 && l->value[at - 1] < value)
        at--;
    if (at == l->most)
        return;
    l->count += l->count < l->most;
    memmove(&l->index[at + 1], &l->index[at], (l->count - at - 1) * sizeof l->index[0]);
    memmove(&l->value[at + 1], &l->value[at], (l->count - at - 1) * sizeof l->value[0]);
    l->index[at] = index;
    l->value[at] = value;
}

void as_sharers_sort(struct as_largest *s, const struct as_view *v)
{
    *s = (struct as_largest){.most = AS_MOST_LARGEST};
    for (uint64_t i = 0; i < v->sharer_count; i++)
        as_largest_offer(s, i, v->sharers[i].stranded);
}
