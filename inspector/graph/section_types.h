// SPDX-License-Identifier: MIT
// The section "graph_types": types by name, with what their chunks take and retain.
#pragma once

#include "base/vec.h"
#include "graph/dominators.h"
#include "graph/graph.h"
#include "model/store.h"

#include <stdint.h>

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
