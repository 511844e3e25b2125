// SPDX-License-Identifier: MIT
// The types of a CPython's objects: what an object's ob_type points to, proven, with its name. Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/store.h"
#include "target/target.h"

#define AS_PY_NO_TYPE UINT32_MAX
enum { AS_PY_MOST_TYPES = 1 << 17 };

// What memory of its own an object of a type has, besides its block.
enum as_py_owns {
    AS_PY_OWNS_NOTHING,
    AS_PY_OWNS_ITEMS,
    AS_PY_OWNS_KEYS,
    AS_PY_OWNS_TABLE,
    AS_PY_OWNS_BYTES,
    AS_PY_OWNS_DATA, // an array of numpy's, unless it shows another's data
};

// How an object refers to others.
enum as_py_refers {
    AS_PY_REFERS,
    AS_PY_REFERS_WEAKLY, // it does not hold its referent
    AS_PY_REFERS_LOOSELY, // words in it may be left over: it is a frame with a stack of values, or behind a text or a number
};

struct as_py_type_entry {
    uint64_t address;    // of the PyTypeObject
    uint64_t least_size; // bytes of an object, without the head
    uint64_t item_size;  // bytes of each item behind that
    uint64_t flags;      // tp_flags
    uint32_t name;       // in `names`: "collections.OrderedDict"; of a built-in type without a module
    uint32_t head;       // bytes of a block before the object: PyGC_Head, and the words before that
    uint32_t owns;       // as_py_owns
    uint32_t refers;     // as_py_refers
    struct as_type_record counts;
};

struct as_py_type;
struct as_py_slot {
    uint64_t address; // 0: free
    uint32_t entry;   // AS_PY_NO_TYPE: no type is there
};
enum { AS_PY_RECENT = 64, AS_PY_MOST_FILES = 64 };
// A file that a core leaves out, for constants.
struct as_py_file {
    uint32_t path; // in the target's strings
    int fd;        // -1: it cannot be had
};
struct as_py_types {
    struct as_target *target;
    struct as_error *err;
    struct as_py_slot
        recent[AS_PY_RECENT]; // what was asked for last, by its address: nearly all objects have few types
    struct as_strings names;
    AS_VEC(struct as_py_type_entry) entries;
    AS_VEC(struct as_py_slot) slots; // a hash table: what was asked for, types and others
    struct as_py_file files[AS_PY_MOST_FILES];
    unsigned opened; // files, in all: the last of them are in `files`
    // Where every object is a chunk of malloc's, by address; else none. Most words that could be ob_type lead into one of these, and few to
    // one that is large enough for a class.
    const uint64_t *chunks;
    size_t chunk_count;
    size_t used;
    bool overflow; // more were asked for than a Python has: nothing that was found is to be believed
    bool failed;   // memory ran out
};

// The type at an address: its index in `entries`, or AS_PY_NO_TYPE. A type is proven by its own type: that is a subclass of
// `type`, up to the object that is its own type and is called "type". Sets `overflow` or `failed`, and then returns AS_PY_NO_TYPE.
uint32_t as_py_type_find(struct as_py_types *types, uint64_t address);
static inline uint32_t as_py_type_at(struct as_py_types *types, uint64_t address)
{
    struct as_py_slot *recent = &types->recent[address / 32 % AS_PY_RECENT];
    if (address == 0 || recent->address != address) // no address of a type is 0
        *recent = (struct as_py_slot){address, as_py_type_find(types, address)};
    return recent->entry;
}
// The name of the module that a class was made in, as the class has it. False: it has none, or it could not be read.
bool as_py_module_name(struct as_target *t, const struct as_py_type *type, char *name, size_t size);
// Adds a type of another table, with its counts: its index in `entries`, or AS_PY_NO_TYPE, as above.
uint32_t as_py_type_join(struct as_py_types *types, const struct as_py_types *other, uint32_t entry);
void as_py_types_free(struct as_py_types *types);
