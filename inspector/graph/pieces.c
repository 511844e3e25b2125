// SPDX-License-Identifier: MIT
#include "graph/pieces.h"
#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

// The numbers of a piece's edges become those of all edges. `base`: how many edges lie before.
static void join_piece(struct as_pieces *all, const struct as_piece *p, bool more)
{
    struct as_edge_list *e = &all->all;
    const uint32_t base = (uint32_t)e->to.count, count = (uint32_t)p->found.to.count;
    uint32_t from = as_index_at(all->index, p->start), to = as_index_at(all->index, p->end);
    all->first[from] = base;
    for (uint32_t node = from + 1; node < to; node++)
        all->first[node] += base;
    if (!more)
        all->first[to] = base + count; // the gap at a heap's end
    if (count == 0)
        return;
    memcpy(e->to.items + base, p->found.to.items, count * sizeof *e->to.items);
    memcpy(e->place.items + base, p->found.place.items, count * sizeof *e->place.items);
    e->to.count = e->place.count += count;
}

// Makes room for so many more edges.
static bool make_room(struct as_edge_list *e, size_t more, struct as_error *err)
{
    if (e->to.count + more >= UINT32_MAX)
        return as_fail(err, AS_NO_MEMORY, "more than %" PRIu32 " pointers are more than the graph can have",
                       UINT32_MAX - 1);
    size_t before = e->to.capacity;
    if (!as_vec_reserve(&e->to, more + 1, err) || !as_vec_reserve(&e->place, more + 1, err)) // never no array at all
        return false;
    if (e->to.capacity != before) {
        as_memory_prefer_large_pages(e->to.items, e->to.capacity * sizeof *e->to.items);
        as_memory_prefer_large_pages(e->place.items, e->place.capacity * sizeof *e->place.items);
    }
    return true;
}

// Joins all pieces whose turn it is.
static bool join(struct as_pieces *p, struct as_error *err)
{
    for (; p->joined < p->list.count && p->list.items[p->joined].done; p->joined++) {
        struct as_piece *piece = &p->list.items[p->joined];
        bool more = p->joined + 1 < p->list.count && piece[1].start == piece->end; // which has the node there
        if (!make_room(&p->all, piece->found.to.count, err) || !as_vec_reserve(&p->unwanted, 1, err))
            return false;
        join_piece(p, piece, more);
        piece->found.to.count = piece->found.place.count = 0;
        p->unwanted.items[p->unwanted.count++] = piece->found;
        piece->found = (struct as_edge_list){0};
    }
    return true;
}

bool as_pieces_open(struct as_pieces *p, const struct as_index *x, struct as_error *err)
{
    *p = (struct as_pieces){.index = x};
    pthread_mutex_init(&p->lock, NULL);
    return make_room(&p->all, 0, err);
}

bool as_pieces_finish(struct as_pieces *p, struct as_piece *piece, struct as_edge_list *found, struct as_error *err)
{
    pthread_mutex_lock(&p->lock);
    piece->found = *found;
    piece->done = true;
    *found = (struct as_edge_list){0};
    bool ok = join(p, err);
    if (p->unwanted.count > 0)
        *found = p->unwanted.items[--p->unwanted.count];
    pthread_mutex_unlock(&p->lock);
    return ok;
}

void as_pieces_close(struct as_pieces *p)
{
    for (size_t i = 0; i < p->list.count; i++)
        as_edge_list_free(&p->list.items[i].found);
    as_edge_list_free(&p->all);
    for (size_t i = 0; i < p->unwanted.count; i++)
        as_edge_list_free(&p->unwanted.items[i]);
    as_vec_free(&p->list);
    as_vec_free(&p->unwanted);
    pthread_mutex_destroy(&p->lock);
}

void as_edge_list_free(struct as_edge_list *l)
{
    as_vec_free(&l->to);
    as_vec_free(&l->place);
}
