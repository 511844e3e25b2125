// SPDX-License-Identifier: MIT
// CPython's structures in memory, on 64-bit machines: those of Objects/obmalloc.c (Include/internal/pycore_obmalloc.h from
// 3.12 on), the same in 3.6 to 3.14, and the parts of objects that are the same in 3.8 to 3.14 (Include/object.h,
// Include/cpython/). Internal to runtimes/.
#pragma once

#include <stdint.h>

enum {
    AS_PY_ALIGNMENT = 16, // of blocks: each size class is one more
    AS_PY_CLASSES = 32,   // blocks of up to 512 bytes
    AS_PY_POOLS = 64,     // in an arena
    AS_PY_SMALL = AS_PY_ALIGNMENT * AS_PY_CLASSES,
};

// struct arena_object.
struct as_py_arena {
    uint64_t address;      // of the arena; 0: this element has none
    uint64_t pool_address; // of the first pool that was never used; those before it have headers
    uint32_t free_pools, total_pools;
    uint64_t free_pool_list, next, previous;
};

// struct pool_header.
struct as_py_pool {
    uint32_t count; // blocks in use; 0: the pool belongs to no size class any more
    uint32_t padding;
    uint64_t free_block;
    uint64_t next, previous;
    uint32_t arena_index, size_class, next_offset, max_next_offset;
};

// PyTypeObject, up to what is read of it.
struct as_py_type {
    uint64_t refcount, type, size; // PyVarObject
    uint64_t name;                 // tp_name: address of a C string
    uint64_t basic_size, item_size;
    uint64_t unread[15];
    uint64_t flags; // tp_flags
    uint64_t unread2[10];
    uint64_t base, dict; // tp_base, tp_dict
};

// tp_flags.
enum {
    AS_PY_INLINE_VALUES = 1 << 2,   // 3.13 on: the attributes' values are behind the object
    AS_PY_MANAGED_WEAKREF = 1 << 3, // 3.12 on; with this or the next, two words stand before the object
    AS_PY_MANAGED_DICT = 1 << 4,    // 3.11 on
    AS_PY_HEAP_TYPE = 1 << 9,       // made by a class statement, or PyType_FromSpec
    AS_PY_HAVE_GC = 1 << 14,        // PyGC_Head stands before the object
    AS_PY_LIST_SUBCLASS = 1 << 25,
    AS_PY_TUPLE_SUBCLASS = 1 << 26,
    AS_PY_UNICODE_SUBCLASS = 1 << 28,
    AS_PY_DICT_SUBCLASS = 1 << 29,
};
#define AS_PY_TYPE_SUBCLASS (UINT64_C(1) << 31)

enum {
    AS_PY_GC_HEAD = 16,   // PyGC_Head: two words, the first of which is not 0 where the collector tracks the object
    AS_PY_PREHEADER = 16, // the two words of MANAGED_DICT and MANAGED_WEAKREF, before PyGC_Head
};

// A str of ASCII characters is the smallest there is; tp_basic_size is that of another form.
enum { AS_PY_LEAST_STR = 40 };

// Where objects have pointers to memory of their own, bytes from the object's beginning.
enum {
    AS_PY_SIZE = 16,        // PyVarObject.ob_size
    AS_PY_LIST_ITEMS = 24,  // PyListObject.ob_item
    AS_PY_DICT_KEYS = 32,   // PyDictObject.ma_keys
    AS_PY_DICT_VALUES = 40, // PyDictObject.ma_values; not 0: the keys belong to all instances of a class
    AS_PY_SET_TABLE = 40,   // PySetObject.table
    AS_PY_BYTEARRAY = 32,   // PyByteArrayObject.ob_bytes
    // The next ones are of numpy's PyArrayObject_fields (numpy 1.7 to 2.4): the data, and flags of which one says that it is the array's
    // own.
    AS_PY_ARRAY_DATA = 16,
    AS_PY_ARRAY_FLAGS = 64,
    AS_PY_ARRAY_OWNS = 4,
};

_Static_assert(sizeof(struct as_py_arena) == 48 && sizeof(struct as_py_pool) == 48, "CPython's structures");
_Static_assert(sizeof(struct as_py_type) == 272, "CPython's structures");
