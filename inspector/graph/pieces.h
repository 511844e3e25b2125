// SPDX-License-Identifier: MIT
// The parts of the heaps that threads read one by one, and how their edges become those of all.
#pragma once

#include "graph/index.h"

#include <pthread.h>

// The edges of a piece. Their room is used again for another piece: new memory costs more than what is written to it.
struct as_edge_list {
    AS_VEC(uint32_t) to;
    AS_VEC(uint16_t) place; // parallel to `to`
};

// A part of a heap that begins where a node begins.
struct as_piece {
    uint64_t start, end;
    bool blocks; // of a runtime: nodes without headers, each of which has all bytes of its interval's length
    bool done;   // `found` has its edges, until they are joined
    struct as_edge_list found;
};

struct as_pieces {
    const struct as_index *index;
    uint32_t *first;                      // of each node: its first edge. Those who read a piece count from its first
    struct as_edge_list all;              // the edges of all pieces that are joined
    AS_VEC(struct as_piece) list;         // by address
    pthread_mutex_t lock;                 // of `all`, of `done` and `found` of the pieces, and of what follows
    size_t joined;                        // so many pieces are
    AS_VEC(struct as_edge_list) unwanted; // room for more
};

// `first` is the caller's to set. Close it in either case. False: AS_NO_MEMORY.
bool as_pieces_open(struct as_pieces *p, const struct as_index *x, struct as_error *err);
// Takes the edges of a piece, and gives room for those of another. Pieces are joined in their order, as soon as it is their turn. May be
// called by several threads. False: AS_NO_MEMORY, also for more than 4 billion edges.
bool as_pieces_finish(struct as_pieces *p, struct as_piece *piece, struct as_edge_list *found, struct as_error *err);
void as_pieces_close(struct as_pieces *p);

void as_edge_list_free(struct as_edge_list *l);
