// SPDX-License-Identifier: MIT
// Reading the edges: each chunk in use once, word by word.
#pragma once

#include "graph/edges.h"
#include "graph/graph_objects.h"
#include "graph/index.h"
#include "graph/patterns.h"
#include "graph/vtables.h"
#include "target/target.h"

#include <pthread.h>

// What reads chunks tells more than edges.
struct as_edge_readers {
    struct as_vtables *vtables;       // take the first word of each chunk
    struct as_patterns *patterns;     // take each pointer with what is beside it
    const struct as_objects *objects; // tell which words hold nothing
};

// Reads all chunks in use of a target that stands still, with several threads. The edges are to be settled then. Free them in either
// case. False: AS_NO_MEMORY, also for more edges than as_edges_add takes.
bool as_edges_read(struct as_edges *e, const struct as_index *x, struct as_target *t,
                   const struct as_edge_readers *readers, struct as_error *err);
// Once all patterns are known: takes out the edges from text, and from words that a chunk's owner does not use. These are left
// over from chunks that lay there before. False: AS_NO_MEMORY.
bool as_edges_settle(struct as_edges *e, struct as_patterns *patterns, struct as_error *err);

// The parts of the heaps that threads read one by one, and how their edges become those of all.

// A part of a heap that begins where a node begins.
struct as_piece {
    uint64_t start, end;
    bool mapped; // it is one node, of mapped memory
    bool blocks; // mapped, or of a runtime: nodes without headers, each of which has all bytes of its interval's length
    bool done;   // `found` has its edges, until they are joined
    struct as_edge_batch found;
};

struct as_pieces {
    const struct as_index *index;
    struct as_edges *all;                  // has those of all pieces that are joined
    AS_VEC(struct as_piece) list;          // by address
    pthread_mutex_t lock;                  // of `all`, of `done` and `found` of the pieces, and of what follows
    size_t joined;                         // so many pieces are
    AS_VEC(struct as_edge_batch) unwanted; // room for more: new memory costs more than what is written to it
};

void as_pieces_open(struct as_pieces *p, const struct as_index *x, struct as_edges *all);
// Takes the edges of a piece, and gives room for those of another. Pieces are joined in their order, as soon as it is their turn. May be
// called by several threads. False: AS_NO_MEMORY, also for more than 4 billion edges.
bool as_pieces_finish(struct as_pieces *p, struct as_piece *piece, struct as_edge_batch *found, struct as_error *err);
void as_pieces_close(struct as_pieces *p);
