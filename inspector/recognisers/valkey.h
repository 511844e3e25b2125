// SPDX-License-Identifier: MIT
// The hash tables of valkey 8.1 and later, which has them where redis has dicts.
//
// A table is an array of buckets of 64 bytes: which of seven places are taken, a byte of each entry's hash, and pointers to the entries.
// In the last place of a full bucket is a pointer to another one, its child.
#pragma once

#include "graph/edges.h"
#include "graph/vtables.h"
#include "recognisers/proof.h"

enum { AS_HASHTABLE_TABLES = 2 };

struct as_hashtable {
    uint32_t node;
    uint32_t tables[AS_HASHTABLE_TABLES]; // AS_NO_NODE: none
    uint64_t used[AS_HASHTABLE_TABLES], children[AS_HASHTABLE_TABLES], buckets[AS_HASHTABLE_TABLES];
    bool keys; // its entries are keys, and nothing more
};

struct as_hashtables {
    const struct as_proof *proof;
    const struct as_edges *edges;
    struct as_vtables *vtables;
    uint64_t steps; // buckets that are left
    AS_VEC(struct as_hashtable) list;
};

// `word`: the pointer, which may lead into the middle of the node.
typedef void as_hashtable_each(void *context, uint32_t node, uint64_t word);

// Fills the list of `h`, of which the rest is set. What there is no memory for is not in it. A table's type is no vtable then.
void as_hashtables_find(struct as_hashtables *h);

// Calls `entry` for all entries of a hash table, and `child` for all buckets that are chunks of their own. False: there
// are more or fewer of them than it says, or the memory has changed.
bool as_hashtable_visit(struct as_hashtables *h, const struct as_hashtable *of, as_hashtable_each *entry,
                        as_hashtable_each *child, void *context);
