// SPDX-License-Identifier: MIT
// The objects of runtimes as nodes of the graph: the blocks in use of a CPython's arenas, and the chunks in use of malloc's that its
// large objects have. A block is a node of its own kind: it has no header. So that a pointer to either is looked up in the same way, a
// block's interval begins AS_HEADER bytes before the block, where a chunk's header would be.
#pragma once

#include "graph/index.h"
#include "model/store.h"
#include "target/target.h"

enum {
    AS_MOST_OBJECT_TYPES = 1 << 20,
    AS_COLLECTOR_HEAD = 16, // bytes before an object: where it stands in the list of the garbage collector
};
#define AS_OBJECT_BLOCK (UINT32_C(1) << 31)

struct as_object_type {
    uint32_t name;                                     // in as_objects.names
    bool collected, leftovers, weak_reference, linked; // as in struct as_visited_type
    bool bytes;                                        // it holds nothing at all
    bool object;                                       // a Python's, also where it is a chunk of malloc's
};

struct as_object_found {
    uint64_t address; // of the memory
    uint32_t type;    // index in `types`
    uint32_t head;    // bytes
    uint32_t used;    // words; 0: not known
};

struct as_object_owned {
    uint64_t address;
    uint32_t type; // index in `types`
    uint32_t used; // words; 0: not known
    bool begins;   // as in struct as_visited_memory
};

// What the types of objects rest on.
enum as_object_evidence { AS_OBJECTS_OF_PYTHON, AS_OBJECTS_OF_RUBY };

struct as_objects {
    // This has each node's index in `types`, and AS_OBJECT_BLOCK if the node is no chunk of malloc's. NULL: there are no objects.
    uint32_t *of_node;
    uint8_t *head;  // bytes of a node's memory before the object, in words
    uint32_t *used; // words of a node's memory that are in use: what is behind is left over; 0: not known
    uint32_t nodes;
    AS_VEC(struct as_object_type) types; // [0]: of what is no object, nor memory of one
    struct as_strings names;
    AS_VEC(struct as_range) regions; // which hold nothing but blocks and what manages them, by address
    uint64_t blocks, bytes;          // nodes that are no chunks of malloc's
    uint64_t interpreter; // address of the type that all types have: a variable of the interpreter; 0: there is none
    uint32_t dict;        // index in `types` of the language's own dict; 0: there is none
    bool changed;         // the runtime was at work meanwhile
    bool collector_off;   // as in struct as_visited
    enum as_object_evidence evidence;
    // Between as_objects_find and as_objects_place.
    as_boundary_vec boundaries; // malloc's, and those of the blocks; empty: there are no objects
    AS_VEC(struct as_object_found) found;
    AS_VEC(struct as_object_owned) owned;
};

// Finds the objects of a target that stands still. `boundaries`: malloc's (as_stopped_reader). Free them in either case. False:
// AS_NO_MEMORY.
bool as_objects_find(struct as_objects *o, struct as_target *t, const struct as_store *s, const uint64_t *boundaries,
                     size_t count, struct as_error *err);
// Gives the nodes their types, once there is an index of all boundaries. False: AS_NO_MEMORY.
bool as_objects_place(struct as_objects *o, const struct as_index *x, struct as_error *err);
void as_objects_free(struct as_objects *o);

// The type of a node: its index; 0: it is no object, or of a type that is not known.
static inline uint32_t as_object_of(const struct as_objects *o, uint32_t node)
{
    return o->of_node ? o->of_node[node] & ~AS_OBJECT_BLOCK : 0;
}

static inline bool as_object_is_block(const struct as_objects *o, uint32_t node)
{
    return o->of_node && o->of_node[node] & AS_OBJECT_BLOCK;
}

// Is it for a runtime's collector to find: a block, or an object in a chunk of malloc's? Then it is never lost.
static inline bool as_object_is_collectors(const struct as_objects *o, uint32_t node)
{
    uint32_t type = as_object_of(o, node);
    return as_object_is_block(o, node) || (type != 0 && o->types.items[type].object);
}

// Is it a chunk of malloc's?
static inline bool as_node_is_chunk(const struct as_objects *o, const struct as_index *x, uint32_t node)
{
    return !as_object_is_block(o, node) && !as_index_is_mapped(x, node);
}

// Does a node that the interpreter leads to count for the interpreter alone? Most of Ruby's memory is chunks of malloc's that no type is
// known of.
static inline bool as_object_counts(const struct as_objects *o, uint32_t node)
{
    return o->of_node && (o->of_node[node] != 0 || o->evidence == AS_OBJECTS_OF_RUBY);
}

// Does an address lie in memory that has blocks only?
bool as_objects_has(const struct as_objects *o, uint64_t address);

// Is a word that leads to a node one of the collector's list, which has all objects and holds none? It leads to PyGC_Head.
static inline bool as_object_is_listed(const struct as_objects *o, const struct as_index *x, uint32_t node,
                                       uint64_t word)
{
    uint32_t type = as_object_of(o, node);
    return type != 0 && o->types.items[type].collected &&
           as_index_node_at(x, word - AS_HEADER - ((uint64_t)o->head[node] * sizeof word - AS_COLLECTOR_HEAD)) == node;
}

// Does the word of a node, `offset` bytes behind its beginning, that leads to another node hold nothing? It is one of the collector's
// list, or what a weak reference refers to, or is left over behind a text or a number, which hold no objects.
bool as_object_holds_nothing(const struct as_objects *o, uint32_t node, uint64_t offset, uint32_t to);
