// SPDX-License-Identifier: MIT
// Redis' dicts: found by their numbers, and proven by as many entries as they say.
//
// A dict begins with a pointer to a table of functions, in a module's data or (of a database, since 7.4) in another chunk. Two tables
// follow, of which the second is filled while the dict grows or shrinks. A dict of keys alone (since 7.2) has entries without a value, and
// a bucket with a single key leads to the key itself. Pointers to both have tags, so that they lead into the middle of a chunk.
//
// Since 8.2, an entry begins with the pointer to the next one, and only pointers from a table or an entry to a key alone have tags. The key
// of a database is the object of the value, with the key's text in it; in 8.6, that of a hash is its field with
// the value, and that of a sorted set a node.
#pragma once

#include "graph/edges.h"
#include "graph/vtables.h"
#include "recognisers/proof.h"

enum { AS_DICT_TABLES = 2 };

struct as_dict {
    uint32_t node;
    uint32_t tables[AS_DICT_TABLES]; // AS_NO_NODE: none
    uint64_t used[AS_DICT_TABLES];
    bool keys;       // it has no values
    bool next_first; // in its entries (since 8.2)
};

struct as_dicts {
    const struct as_proof *proof;
    const struct as_edges *edges;
    struct as_vtables *vtables;
    uint64_t steps; // along entries, that are left
    bool modern;    // some dict cannot be one of before 8.2
    AS_VEC(struct as_dict) list;
};

typedef void as_dict_each(void *context, uint32_t node);

// The words of an entry; without a value, the next one follows the key or is before it.
static inline uint32_t as_dict_key(const struct as_dict *d)
{
    return d->next_first ? 1 : 0;
}

static inline uint32_t as_dict_value(const struct as_dict *d)
{
    return as_dict_key(d) + 1;
}

// Fills the list of `d`, of which the rest is set. What there is no memory for is not in it. A dict's type is no vtable then. `types`: a
// byte for each vtable, all zeros.
void as_dicts_find(struct as_dicts *d, uint8_t *types);

// Calls `entry` for all entries of a dict, and `key` for the keys to which a bucket leads itself. False: there are more or fewer of
// them than the dict says, or they are none.
bool as_dict_visit(struct as_dicts *d, const struct as_dict *of, as_dict_each *entry, as_dict_each *key, void *context);
