// SPDX-License-Identifier: MIT
// A chunk below the root of all, and no owner, is a top: several owners lead to it. Whatever it dominates has the same owners, because each
// way there goes through it. So the tops alone are a graph, through which the owners spread: each has a set of these, 64 bits.
#include "graph/several.h"
#include "base/memory.h"
#include "base/sort.h"

#include <stdlib.h>
#include <string.h>

struct several_search {
    const struct as_dominators *d;
    struct as_error *err;
    uint32_t *top;               // of each place: the place below the root of all that it hangs on
    AS_VEC(uint64_t) from_owner; // owner << 32 | top: it leads there. Each once, in order
    AS_VEC(uint64_t) from_top;   // top << 32 | top, likewise
    uint64_t *set;               // of each place that is a top: a bit for each owner that leads to it
    AS_VEC(uint32_t) queue;
};

static bool is_owner(const struct several_search *s, uint32_t place)
{
    return s->d->vertex[place] < s->d->owners;
}

static bool is_top(const struct several_search *s, uint32_t place)
{
    return s->d->parent[place] == 0 && !is_owner(s, place);
}

static bool add_edge(struct several_search *s, uint32_t from, uint32_t to)
{
    uint32_t top = s->top[from];
    if (top == to)
        return true;
    bool of_owner = is_owner(s, top);
    uint64_t *added = of_owner ? as_vec_add(&s->from_owner, s->err) : as_vec_add(&s->from_top, s->err);
    if (added)
        *added = (uint64_t)(of_owner ? s->d->vertex[top] : top) << 32 | to;
    return added;
}

static size_t without_doubles(uint64_t *items, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || items[kept - 1] != items[i])
            items[kept++] = items[i];
    return kept;
}

static bool find_edges(struct several_search *s)
{
    bool ok = true;
    for (uint32_t place = 1; place < s->d->count; place++)
        s->top[place] = s->d->parent[place] == 0 ? place : s->top[s->d->parent[place]];
    for (uint32_t to = 1; ok && to < s->d->count; to++)
        for (uint32_t i = s->d->in_first[to]; ok && is_top(s, to) && i < s->d->in_first[to + 1]; i++)
            ok = add_edge(s, s->d->in[i], to);
    ok = ok && as_sort_u64(s->from_owner.items, s->from_owner.count, s->err) &&
         as_sort_u64(s->from_top.items, s->from_top.count, s->err);
    s->from_owner.count = without_doubles(s->from_owner.items, s->from_owner.count);
    s->from_top.count = without_doubles(s->from_top.items, s->from_top.count);
    return ok;
}

static int most_first(const void *a, const void *b)
{
    const struct as_leading *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes > y->bytes ? -1 : 1) : x->owner < y->owner ? -1 : x->owner > y->owner;
}

// Takes the owners whose edges go to the tops that retain most.
static bool choose(struct several_search *s, struct as_several *out)
{
    AS_VEC(struct as_leading) all = {0};
    bool ok = as_vec_reserve(&all, s->from_owner.count, s->err);
    for (size_t i = 0; ok && i < s->from_owner.count; i++) {
        uint32_t owner = (uint32_t)(s->from_owner.items[i] >> 32);
        if (all.count == 0 || all.items[all.count - 1].owner != owner)
            all.items[all.count++] = (struct as_leading){owner, 0};
        all.items[all.count - 1].bytes += s->d->retained[(uint32_t)s->from_owner.items[i]];
    }
    if (ok && all.count > 0)
        qsort(all.items, all.count, sizeof *all.items, most_first);
    out->owners = (uint32_t)all.count;
    out->count = all.count < AS_MOST_LEADING ? (uint32_t)all.count : AS_MOST_LEADING;
    for (uint32_t i = 0; ok && i < out->count; i++)
        out->leading[i] = (struct as_leading){all.items[i].owner, 0};
    as_vec_free(&all);
    return ok;
}

// Gives a top these owners, too.
static bool give(struct several_search *s, uint32_t top, uint64_t owners)
{
    uint32_t *queued = (s->set[top] | owners) != s->set[top] ? as_vec_add(&s->queue, s->err) : NULL;
    if ((s->set[top] | owners) == s->set[top])
        return true;
    s->set[top] |= owners;
    if (queued)
        *queued = top;
    return queued;
}

static bool spread(struct several_search *s, const struct as_several *out)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < out->count; i++) {
        size_t at = as_lower_bound(s->from_owner.items, s->from_owner.count, (uint64_t)out->leading[i].owner << 32);
        for (; ok && at < s->from_owner.count && s->from_owner.items[at] >> 32 == out->leading[i].owner; at++)
            ok = give(s, (uint32_t)s->from_owner.items[at], UINT64_C(1) << i);
    }
    while (ok && s->queue.count > 0) {
        uint32_t top = s->queue.items[--s->queue.count];
        size_t at = as_lower_bound(s->from_top.items, s->from_top.count, (uint64_t)top << 32);
        for (; ok && at < s->from_top.count && s->from_top.items[at] >> 32 == top; at++)
            ok = give(s, (uint32_t)s->from_top.items[at], s->set[top]);
    }
    return ok;
}

static void add_up(const struct several_search *s, struct as_several *out)
{
    for (uint32_t place = 1; place < s->d->count; place++) {
        if (!is_top(s, place))
            continue;
        out->bytes += s->d->retained[place];
        for (uint32_t i = 0; i < out->count; i++)
            if (s->set[place] >> i & 1)
                out->leading[i].bytes += s->d->retained[place];
    }
    qsort(out->leading, out->count, sizeof *out->leading, most_first);
}

bool as_several_find(struct as_several *s, const struct as_dominators *d, struct as_error *err)
{
    struct several_search search = {.d = d, .err = err};
    size_t places = (size_t)d->count + 1;
    uint32_t first = 1;
    *s = (struct as_several){0};
    while (first < d->count && !is_top(&search, first))
        first++;
    if (first >= d->count)
        return true;
    search.top = as_memory_map_large(places * sizeof *search.top, "the owners of what several hold", err);
    search.set = search.top ? as_memory_map(places * sizeof *search.set, "the owners of what several hold", err) : NULL;
    bool ok = search.set && find_edges(&search) && choose(&search, s) && spread(&search, s);
    if (ok)
        add_up(&search, s);
    as_memory_unmap(search.top, places * sizeof *search.top);
    as_memory_unmap(search.set, places * sizeof *search.set);
    as_vec_free(&search.from_owner);
    as_vec_free(&search.from_top);
    as_vec_free(&search.queue);
    return ok;
}
