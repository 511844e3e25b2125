// SPDX-License-Identifier: MIT
// What is told of a runtime's objects, one by one: the graph makes nodes of them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// A piece of the runtime's own heap that is in use (a block of a pool, a slot), or a chunk of malloc's that an object is in.
struct as_visited_block {
    uint64_t address, size; // of the memory; bytes
    uint64_t region_end;    // where the region ends that it lies in; 0: it is a chunk of malloc's
    uint32_t type;          // its type's number; UINT32_MAX: no object is in it
    bool memory;            // it is memory that an object of that type has, and no object
    uint32_t head;          // bytes before the object that belong to it: of CPython, PyGC_Head and other such words
    uint64_t used;          // bytes up to the object's end: what is behind is left over; 0: not known
};

// Memory of malloc's, or a block, that an object has of its own.
struct as_visited_memory {
    uint64_t address;
    uint64_t used; // bytes that are in use; 0: not known
    uint32_t type; // the object's type's number
    bool begins;   // it counts only if a chunk in use has its memory at just this address
};

struct as_visited_type {
    uint64_t address; // of the language's own object for it; 0: it has none
    const char *name;
    const char *memory; // what an object's own memory is: "items"
    bool collected;     // objects have a PyGC_Head
    bool of_heap;       // it was made at run time, and is in memory that the runtime asked for
    bool leftovers; // words in an object may be left over: it is a text, a number, or a frame with a stack of values
    bool weak_reference; // what an object refers to is not held by that
    bool linked;         // though `leftovers`: objects of the type hold each other
    bool bytes;          // an object's own memory is text or numbers, and holds nothing
};

// What is known once all was told.
struct as_visited {
    bool known;         // the runtime's structures are those that we know; false: what was told is not to be believed
    bool changed;       // the runtime was at work meanwhile
    bool collector_off; // its collector is switched off; false, too: that is not known
};

// Blocks by address, those of regions first, each region before its blocks; between them the memory that objects have
// of their own; at last the types by their numbers, from 0 on. Each returns false to end that: AS_NO_MEMORY.
struct as_object_visitor {
    void *context;
    bool (*region)(void *context, uint64_t start, uint64_t end);
    bool (*block)(void *context, const struct as_visited_block *block);
    bool (*memory)(void *context, const struct as_visited_memory *memory);
    bool (*type)(void *context, const struct as_visited_type *type);
};
