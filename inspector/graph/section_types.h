// SPDX-License-Identifier: MIT
// The section "graph_types": types by name, with what their chunks take and retain.
#pragma once

#include "graph/dominators.h"
#include "graph/graph.h"
#include "graph/intern.h"
#include "model/store.h"

enum { AS_SECTION_NAME_BYTES = 1000 }; // bytes of a name in a dump, at most

// Which record a type has. Several types may have one: classes of the same name in two modules.
struct as_type_records {
    struct as_keys numbers;
    AS_VEC(uint32_t) of_number; // index in the store's graph_types
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
