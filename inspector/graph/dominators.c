// SPDX-License-Identifier: MIT
// By semidominators (Lengauer and Tarjan), with the immediate dominators taken from them by the nearest common ancestor (Georgiadis's
// SEMI-NCA). All arrays but `number` are by place, so that most steps go to neighbours.
#include "graph/dominators.h"
#include "base/memory.h"

#include <string.h>

enum { AHEAD = 16 }; // places whose successors' numbers are fetched before they are needed

struct work {
    struct as_dominators *d;
    struct as_edges *edges;
    const struct as_objects *objects;
    const struct as_roots *roots;
    const struct as_owners *owners;
    struct as_precise precise;
    uint32_t vertices;
    uint64_t *seen;      // a bit for each vertex: it has a place
    uint32_t *semi;      // semidominator; while the places are found: how far the successors have been inspected
    uint32_t *lowest;    // on the compressed way up: the lowest semidominator
    uint32_t *ancestor;  // parent in the search's tree, and then the compressed way up
    uint32_t *successor; // all edges between places, by the place that they begin at
    uint64_t successors; // how many
    uint32_t *stack;
    struct as_error *err;
};

struct list {
    bool of_owner;  // what its roots lead to, and not a node's edges
    uint32_t node;  // whose
    uint32_t first; // of these; of edges, the index of its first unit
    const struct as_root *roots;
    uint32_t end; // behind the last of both
};

static struct list successors(const struct work *w, uint32_t vertex)
{
    if (vertex < w->d->owners) {
        const struct as_owner *o = &w->owners->list.items[vertex];
        return (struct list){true, 0, 0, w->roots->list.items + o->first, o->count};
    }
    uint32_t node = vertex - w->d->owners;
    struct as_edge_range edges = as_edges_of(w->edges, node);
    return (struct list){false, node, edges.first, NULL, edges.end};
}

// The vertex that a successor is.
static uint32_t vertex_of(const struct work *w, const struct list *l, uint32_t i)
{
    return w->d->owners + (l->of_owner ? l->roots[i].node : as_edge_to(w->edges, l->node, i));
}

static uint32_t next_of(const struct work *w, const struct list *l, uint32_t i)
{
    return l->of_owner ? i + 1 : as_edge_next(w->edges, i);
}

static bool map(struct work *w, uint32_t **out, uint64_t count)
{
    *out = as_memory_map_large((size_t)count * sizeof **out, "the dominator tree", w->err);
    return *out;
}

static uint32_t add_place(struct work *w, uint32_t vertex, uint32_t parent)
{
    uint32_t place = w->d->count++;
    w->seen[vertex / 64] |= UINT64_C(1) << vertex % 64;
    w->d->place[vertex] = place;
    w->d->vertex[place] = vertex;
    w->d->parent[place] = parent;
    return place;
}

// Does an edge between two vertices own nothing, because the interpreter surely holds the object that it leads to? (What an owner leads to
// itself, is_dropped knows.)
static bool is_imprecise(const struct work *w, uint32_t from, uint32_t to)
{
    uint32_t owners = w->d->owners;
    return from >= owners && as_precise_has(&w->precise, w->objects, to - owners) &&
           as_precise_drops(&w->precise, from - owners);
}

// The next successor without a place; UINT32_MAX: there is none.
static uint32_t next_unseen(struct work *w, uint32_t place)
{
    uint32_t from = w->d->vertex[place];
    struct list l = successors(w, from);
    for (uint32_t i; (i = l.first + w->semi[place]) < l.end;) {
        uint32_t vertex = vertex_of(w, &l, i);
        w->semi[place] = next_of(w, &l, i) - l.first;
        w->successors++;
        if (!(w->seen[vertex / 64] >> vertex % 64 & 1) && !is_imprecise(w, from, vertex))
            return vertex;
    }
    return UINT32_MAX;
}

enum owner_rank { OF_INTERPRETER, STRONG, WEAK };

static enum owner_rank rank_of(const struct work *w, uint32_t owner)
{
    const struct as_owner *o = &w->owners->list.items[owner];
    return o->united ? OF_INTERPRETER : as_root_is_weak(w->roots->sources.items[o->source].kind) ? WEAK : STRONG;
}

static void number_places_of(struct work *w, enum owner_rank rank)
{
    for (uint32_t owner = 0; owner < w->d->owners; owner++) {
        uint32_t place = rank_of(w, owner) == rank ? add_place(w, owner, 0) : 0;
        while (place != 0) {
            uint32_t vertex = next_unseen(w, place);
            place = vertex == UINT32_MAX ? w->d->parent[place] : add_place(w, vertex, place);
        }
    }
}

static void number_places(struct work *w)
{
    w->d->count = 1; // 0 is the root of all
    number_places_of(w, OF_INTERPRETER);
    w->d->others = w->d->count;
    number_places_of(w, STRONG);
    w->d->strong = w->d->count;
    number_places_of(w, WEAK);
}

// Does an edge between two places own nothing, because roots of a higher rank lead to where it leads?
static bool is_dropped(const struct work *w, uint32_t place, uint32_t to)
{
    const struct as_dominators *d = w->d;
    return (place >= d->strong && to < d->strong) ||
           (place >= d->others && to < d->others && d->vertex[to] >= d->owners &&
            as_object_counts(w->objects, d->vertex[to] - d->owners)) ||
           is_imprecise(w, d->vertex[place], d->vertex[to]);
}

// Writes down the edges as places; in_first becomes the number of predecessors.
static void translate(struct work *w)
{
    uint64_t at = 0;
    for (uint32_t place = 1; place < w->d->count; place++) {
        if (place + AHEAD < w->d->count) {
            struct list ahead = successors(w, w->d->vertex[place + AHEAD]);
            for (uint32_t i = ahead.first; i < ahead.end && i - ahead.first < AHEAD; i = next_of(w, &ahead, i))
                __builtin_prefetch(&w->d->place[vertex_of(w, &ahead, i)]);
        }
        struct list l = successors(w, w->d->vertex[place]);
        w->semi[place] = 0;
        for (uint32_t i = l.first; i < l.end; i = next_of(w, &l, i)) {
            uint32_t to = w->d->place[vertex_of(w, &l, i)];
            bool dropped = is_dropped(w, place, to);
            w->successor[at++] = dropped ? 0 : to;
            w->d->in_first[to] += !dropped;
            w->semi[place]++;
        }
    }
}

// Owners are led to by the root of all alone, and a place with a single predecessor has its parent as such.
static uint64_t make_room(struct work *w)
{
    uint64_t sum = 0;
    for (uint32_t place = 0; place < w->d->count; place++) {
        uint32_t count = w->d->in_first[place] > 1 ? w->d->in_first[place] : 0;
        w->d->in_first[place] = (uint32_t)sum;
        sum += count;
    }
    w->d->in_first[w->d->count] = (uint32_t)sum;
    return sum;
}

static void add_predecessors(struct work *w)
{
    // lowest[place]: how many of its predecessors have been written
    uint64_t at = 0;
    for (uint32_t place = 1; place < w->d->count; place++) {
        for (uint32_t i = 0; i < w->semi[place]; i++) {
            uint32_t to = w->successor[at++];
            if (to != 0 && w->d->in_first[to + 1] > w->d->in_first[to])
                w->d->in[w->d->in_first[to] + w->lowest[to]++] = place;
        }
    }
}

// The lowest semidominator on the way up from `place` to a place below `linked`.
static uint32_t evaluate(struct work *w, uint32_t place, uint32_t linked)
{
    if (w->ancestor[place] < linked)
        return w->lowest[place];
    uint32_t depth = 0;
    do {
        w->stack[depth++] = place;
        place = w->ancestor[place];
    } while (w->ancestor[place] >= linked);
    uint32_t top = w->ancestor[place], lowest = w->lowest[place];
    while (depth > 0) {
        place = w->stack[--depth];
        w->ancestor[place] = top;
        lowest = w->lowest[place] < lowest ? w->lowest[place] : lowest;
        w->lowest[place] = lowest;
    }
    return lowest;
}

static void find_semidominators(struct work *w)
{
    for (uint32_t place = 0; place < w->d->count; place++) {
        w->lowest[place] = place;
        w->ancestor[place] = w->d->parent[place];
    }
    for (uint32_t place = w->d->count - 1; place > 0; place--) {
        uint32_t semi = w->d->parent[place];
        for (uint32_t i = w->d->in_first[place]; i < w->d->in_first[place + 1]; i++) {
            uint32_t other = evaluate(w, w->d->in[i], place + 1);
            semi = other < semi ? other : semi;
        }
        w->semi[place] = w->lowest[place] = semi;
    }
}

// From the parents in the search's tree to the immediate dominators.
static void find_parents(struct work *w)
{
    for (uint32_t place = 1; place < w->d->count; place++) {
        uint32_t parent = w->d->parent[place];
        while (parent > w->semi[place])
            parent = w->d->parent[parent];
        w->d->parent[place] = parent;
    }
}

static void unmap(uint32_t **array, uint64_t count)
{
    as_memory_unmap(*array, (size_t)count * sizeof **array);
    *array = NULL;
}

static bool find_dominators(struct work *w)
{
    uint64_t places = (uint64_t)w->vertices + 2;
    w->seen = as_memory_map((size_t)(places / 64 + 1) * sizeof *w->seen, "the dominator tree", w->err);
    if (!w->seen || !map(w, &w->d->parent, places) || !map(w, &w->d->vertex, places) || !map(w, &w->d->place, places) ||
        !map(w, &w->semi, places))
        return false;
    number_places(w);
    if (!map(w, &w->d->in_first, places) || !map(w, &w->successor, w->successors + 1))
        return false;
    translate(w);
    as_edges_forget(w->edges);
    w->d->predecessors = make_room(w);
    if (!map(w, &w->lowest, places) || !map(w, &w->d->in, w->d->predecessors + 1))
        return false;
    add_predecessors(w);
    unmap(&w->successor, w->successors + 1);
    if (!map(w, &w->ancestor, places) || !map(w, &w->stack, places))
        return false;
    find_semidominators(w);
    find_parents(w);
    return true;
}

bool as_dominators_find(struct as_dominators *d, struct as_edges *e, const struct as_objects *objects,
                        const struct as_roots *r, const struct as_owners *o, struct as_error *err)
{
    uint64_t vertices = (uint64_t)e->nodes + o->list.count;
    *d = (struct as_dominators){.owners = (uint32_t)o->list.count, .nodes = e->nodes};
    if (vertices >= UINT32_MAX - 2)
        return as_fail(err, AS_NO_MEMORY,
                       "%llu chunks and owners are more than the dominator tree can have (4 billion)",
                       (unsigned long long)vertices);
    struct work w = {
        .d = d, .edges = e, .objects = objects, .roots = r, .owners = o, .vertices = (uint32_t)vertices, .err = err};
    bool ok = as_precise_find(&w.precise, e, objects, r, err) && find_dominators(&w);
    uint64_t places = vertices + 2;
    as_memory_unmap(w.seen, (size_t)(places / 64 + 1) * sizeof *w.seen);
    unmap(&w.semi, places);
    unmap(&w.lowest, places);
    unmap(&w.ancestor, places);
    unmap(&w.successor, w.successors + 1);
    unmap(&w.stack, places);
    as_precise_free(&w.precise);
    return ok;
}

bool as_dominators_add_up(struct as_dominators *d, const struct as_index *x, struct as_error *err)
{
    d->retained = as_memory_map_large(((size_t)d->count + 1) * sizeof *d->retained, "what chunks retain", err);
    if (!d->retained)
        return false;
    for (struct as_used_cursor c = as_used_begin(x); as_used_next(&c);) {
        uint32_t place = d->place[d->owners + c.chunk.node];
        if (place != 0)
            d->retained[place] = as_used_bytes(x, &c.chunk);
    }
    for (uint32_t place = d->count - 1; place > 0; place--)
        d->retained[d->parent[place]] += d->retained[place];
    return true;
}

void as_dominators_free(struct as_dominators *d)
{
    uint64_t places = (uint64_t)d->nodes + d->owners + 2;
    as_memory_unmap(d->parent, (size_t)places * sizeof *d->parent);
    as_memory_unmap(d->vertex, (size_t)places * sizeof *d->vertex);
    as_memory_unmap(d->place, (size_t)places * sizeof *d->place);
    unmap(&d->in_first, places);
    unmap(&d->in, d->predecessors + 1);
    as_memory_unmap(d->retained, ((size_t)d->count + 1) * sizeof *d->retained);
    *d = (struct as_dominators){0};
}
