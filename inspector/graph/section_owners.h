// SPDX-License-Identifier: MIT
// The sections "graph_owners", "graph_branches" and "graph_leading": the tree of owners, and who has what several have.
#pragma once

#include "graph/dominators.h"
#include "graph/leaks.h"
#include "graph/owners.h"
#include "graph/section_types.h"
#include "graph/type_tree.h"

// The records of owners, by their indexes in the store's graph_owners.
struct as_owner_records {
    AS_VEC(uint32_t) of_owner; // by the index of an owner: its record, or `others`
    uint32_t several;          // no single owner; may be `others`
    uint32_t lost;             // of chunks that no owner leads to
    uint32_t others;           // of owners for which there is no room
};

// Fills in the store's graph_owners, graph_branches and graph_leading. `t`: the target of the snapshot. Free the result
// in either case. False: AS_NO_MEMORY.
bool as_owner_records_make(struct as_owner_records *r, struct as_store *s, struct as_graph *g,
                           const struct as_owners *owners, const struct as_tree *tree, const struct as_several *several,
                           const struct as_type_records *types, const struct as_target *t, struct as_error *err);
void as_owner_records_free(struct as_owner_records *r);

// The sections "graph_page_users" and "graph_places": whose chunks lie on which page, and what keeps pages with stranded bytes.

// Who holds each node, and what it is: all that the pages are counted by.
struct as_holding {
    const struct as_graph *graph;
    const struct as_dominators *dominators;
    const struct as_leaks *leaks;
    const struct as_type_records *types;
    const struct as_owner_records *owners;
};

// Fills in the store's graph_leaks, graph_page_users and graph_places, and what types and owners keep. False: AS_NO_MEMORY.
bool as_page_users_make(const struct as_holding *h, struct as_store *s, struct as_error *err);
