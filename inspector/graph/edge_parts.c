// SPDX-License-Identifier: MIT
#include "graph/edge_reader.h"
// Joins all pieces whose turn it is.
static bool join_pieces(struct as_pieces *p, struct as_error *err)
{
    for (; p->joined < p->list.count && p->list.items[p->joined].done; p->joined++) {
        struct as_piece *piece = &p->list.items[p->joined];
        if (!as_edges_add(p->all, as_index_at(p->index, piece->start), &piece->found, err) ||
            !as_vec_reserve(&p->unwanted, 1, err))
            return false;
        piece->found.firsts.count = piece->found.list.count = piece->found.count = 0;
        p->unwanted.items[p->unwanted.count++] = piece->found;
        piece->found = (struct as_edge_batch){0};
    }
    return true;
}

void as_pieces_open(struct as_pieces *p, const struct as_index *x, struct as_edges *all)
{
    *p = (struct as_pieces){.index = x, .all = all};
    pthread_mutex_init(&p->lock, NULL);
}

bool as_pieces_finish(struct as_pieces *p, struct as_piece *piece, struct as_edge_batch *found, struct as_error *err)
{
    pthread_mutex_lock(&p->lock);
    piece->found = *found;
    piece->done = true;
    *found = (struct as_edge_batch){0};
    bool ok = join_pieces(p, err);
    if (p->unwanted.count > 0)
        *found = p->unwanted.items[--p->unwanted.count];
    pthread_mutex_unlock(&p->lock);
    return ok;
}

void as_pieces_close(struct as_pieces *p)
{
    for (size_t i = 0; i < p->list.count; i++)
        as_edge_batch_free(&p->list.items[i].found);
    for (size_t i = 0; i < p->unwanted.count; i++)
        as_edge_batch_free(&p->unwanted.items[i]);
    AS_FREE_VECS(p, list, unwanted);
    pthread_mutex_destroy(&p->lock);
}
