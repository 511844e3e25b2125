// SPDX-License-Identifier: MIT
// The sections "graph_owners", "graph_branches" and "graph_leading": the tree of owners, and who has what several have.
#pragma once

#include "base/vec.h"
#include "graph/dominators.h"
#include "graph/graph.h"
#include "graph/leaks.h"
#include "graph/owners.h"
#include "graph/type_tree.h"
#include "model/store.h"

#include <stdint.h>

// The section "graph_types": types by name, with what their chunks take and retain.

// Numbers for keys: 0 for the first that is met, 1 for the second, and so on.
#define AS_NO_KEY UINT32_MAX

struct as_keys {
    AS_VEC(uint64_t) list; // by number
    uint32_t *slots;       // by hash: a number and 1; 0: free
    size_t size;           // of slots, a power of two
    uint32_t most;
};

// For at most `most` keys. False: AS_NO_MEMORY. Close it in either case.
bool as_keys_open(struct as_keys *k, uint32_t most, struct as_error *err);
void as_keys_close(struct as_keys *k);
// The number of a key, which gets one if it has none. AS_NO_KEY: there are too many, or no memory.
uint32_t as_key_add(struct as_keys *k, uint64_t key);
// The number of a key; AS_NO_KEY: it has none.
uint32_t as_key_find(const struct as_keys *k, uint64_t key);

enum { AS_SECTION_NAME_BYTES = 1000 }; // bytes of a name in a dump, at most

// Which record a type has. Several types may have one: classes of the same name in two modules.
struct as_type_records {
    struct as_keys numbers;
    AS_VEC(uint32_t) of_number; // index in the store's graph_types
    AS_VEC(uint32_t) examples;  // of each record: the node of its first chunk; AS_NO_NODE for that of all others
};

// Fills in the store's graph_types, without what they retain. Free the result in either case. False: AS_NO_MEMORY.
bool as_type_records_make(struct as_type_records *r, struct as_store *s, const struct as_graph *g,
                          struct as_error *err);
// Fills in what the types retain. `d`: added up. False: AS_NO_MEMORY.
bool as_type_records_retain(const struct as_type_records *r, struct as_store *s, const struct as_graph *g,
                            const struct as_dominators *d, struct as_error *err);
// The index of the record of an as_graph_type; UINT32_MAX for one that no chunk in use has.
uint32_t as_type_record_of(const struct as_type_records *r, uint32_t type);
void as_type_records_free(struct as_type_records *r);

// The section "profile_types": what grew since a profile began, by the names of types. Says in the profile's record whether it is exact.
// False: AS_NO_MEMORY.
bool as_growth_records_make(const struct as_type_records *r, struct as_store *s, const struct as_graph *g,
                            const struct as_profile_baseline *baseline, const as_boundary_vec *noted,
                            struct as_error *err);

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
