// SPDX-License-Identifier: MIT
// A chunk below the root of all, and no owner, is a top: several owners lead to it. Whatever it dominates has the same owners, because each
// way there goes through it. So the tops alone are a graph, through which the owners spread: each has a set of these, 64 bits.
#include "base/memory.h"
#include "base/sort.h"
#include "graph/dominators.h"

#include <stdlib.h>

enum {
    MOST_ASKED = 32 * AS_MOST_LEADING, // owners, to how much each leads
    MOST_PASSES = 64,                  // over all that several hold, until no more are asked
};

struct several_search {
    const struct as_dominators *d;
    struct as_error *err;
    uint32_t *top;               // of each place: the place below the root of all that it hangs on
    AS_VEC(uint64_t) from_owner; // owner << 32 | top: it leads there. Each once, in order
    AS_VEC(uint64_t) from_top;   // top << 32 | top, likewise
    uint64_t *set;               // of each place that is a top: a bit for each owner that leads to it
    AS_VEC(uint32_t) queue;
    AS_VEC(uint32_t) tops; // all of them
    uint64_t steps;        // that are left
    AS_VEC(struct as_leading) owners;
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

static bool find_tops(struct several_search *s)
{
    for (uint32_t place = 1; place < s->d->count; place++) {
        uint32_t *added = is_top(s, place) ? as_vec_add(&s->tops, s->err) : NULL;
        if (added)
            *added = place;
        else if (is_top(s, place))
            return false;
    }
    return true;
}

static bool find_edges(struct several_search *s)
{
    bool ok = true;
    for (uint32_t place = 1; place < s->d->count; place++)
        s->top[place] = s->d->parent[place] == 0 ? place : s->top[s->d->parent[place]];
    for (size_t k = 0; ok && k < s->tops.count; k++) {
        uint32_t to = s->tops.items[k];
        for (uint32_t i = s->d->in_first[to]; ok && i < s->d->in_first[to + 1]; i++)
            ok = add_edge(s, s->d->in[i], to);
    }
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

// All owners, those whose edges go to the tops that retain most before the others.
static bool list_owners(struct several_search *s)
{
    bool ok = as_vec_reserve(&s->owners, s->from_owner.count, s->err);
    for (size_t i = 0; ok && i < s->from_owner.count; i++) {
        uint32_t owner = (uint32_t)(s->from_owner.items[i] >> 32);
        if (s->owners.count == 0 || s->owners.items[s->owners.count - 1].owner != owner)
            s->owners.items[s->owners.count++] = (struct as_leading){owner, 0};
        s->owners.items[s->owners.count - 1].bytes += s->d->retained[(uint32_t)s->from_owner.items[i]];
    }
    if (ok && s->owners.count > 0)
        qsort(s->owners.items, s->owners.count, sizeof *s->owners.items, most_first);
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

static bool spread(struct several_search *s, const struct as_leading *owners, size_t count)
{
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        size_t at = as_lower_bound(s->from_owner.items, s->from_owner.count, (uint64_t)owners[i].owner << 32);
        for (; ok && at < s->from_owner.count && s->from_owner.items[at] >> 32 == owners[i].owner; at++)
            ok = give(s, (uint32_t)s->from_owner.items[at], UINT64_C(1) << i);
    }
    while (ok && s->queue.count > 0) {
        uint32_t top = s->queue.items[--s->queue.count];
        s->steps -= s->steps > 0;
        size_t at = as_lower_bound(s->from_top.items, s->from_top.count, (uint64_t)top << 32);
        for (; ok && at < s->from_top.count && s->from_top.items[at] >> 32 == top; at++) {
            ok = give(s, (uint32_t)s->from_top.items[at], s->set[top]);
            s->steps -= s->steps > 0;
        }
    }
    return ok;
}

static void add_up(const struct several_search *s, struct as_leading *owners, size_t count)
{
    for (size_t i = 0; i < count; i++)
        owners[i].bytes = 0;
    for (size_t k = 0; k < s->tops.count; k++) {
        uint32_t top = s->tops.items[k];
        for (uint64_t left = s->set[top]; left != 0; left &= left - 1)
            owners[as_count_bits((left & -left) - 1)].bytes += s->d->retained[top];
        s->set[top] = 0; // for the next owners
    }
}

// An owner may lead to little that leads to all the rest: so how much each leads to is asked, of as many owners at a time as there are
// bits.
static bool ask_owners(struct several_search *s, struct as_several *out)
{
    size_t asked = 0, most = s->owners.count < MOST_ASKED ? s->owners.count : MOST_ASKED;
    s->steps = MOST_PASSES * (s->tops.count + s->from_top.count);
    bool ok = true;
    for (size_t k = 0; k < s->tops.count; k++)
        out->bytes += s->d->retained[s->tops.items[k]];
    // What was begun is ended: the sums of those that were asked are whole.
    while (ok && asked < most && (asked == 0 || s->steps > 0)) {
        size_t count = most - asked < AS_MOST_LEADING ? most - asked : AS_MOST_LEADING;
        ok = spread(s, s->owners.items + asked, count);
        add_up(s, s->owners.items + asked, count);
        asked += count;
    }
    if (asked > 0)
        qsort(s->owners.items, asked, sizeof *s->owners.items, most_first);
    out->owners = (uint32_t)s->owners.count;
    out->asked = (uint32_t)asked;
    out->count = asked < AS_MOST_LEADING ? (uint32_t)asked : AS_MOST_LEADING;
    for (uint32_t i = 0; i < out->count; i++)
        out->leading[i] = s->owners.items[i];
    return ok;
}

bool as_several_find(struct as_several *s, const struct as_dominators *d, struct as_error *err)
{
    struct several_search search = {.d = d, .err = err};
    size_t places = (size_t)d->count + 1;
    *s = (struct as_several){0};
    bool ok = find_tops(&search);
    if (!ok || search.tops.count == 0) {
        as_vec_free(&search.tops);
        return ok;
    }
    search.top = as_memory_map_large(places * sizeof *search.top, "the owners of what several hold", err);
    search.set = search.top ? as_memory_map(places * sizeof *search.set, "the owners of what several hold", err) : NULL;
    ok = search.set && find_edges(&search) && list_owners(&search) && ask_owners(&search, s);
    as_memory_unmap(search.top, places * sizeof *search.top);
    as_memory_unmap(search.set, places * sizeof *search.set);
    AS_FREE_VECS(&search, from_owner, from_top, queue, owners, tops);
    return ok;
}
