// SPDX-License-Identifier: MIT
// The sections "graph_page_users" and "graph_places": whose chunks lie on which page, and what keeps pages with stranded bytes.
#pragma once

#include "graph/leaks.h"
#include "graph/section_owners.h"

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
