// SPDX-License-Identifier: MIT
// CPython's own hash tables (_Py_hashtable_t of Include/internal/pycore_hashtable.h, the same in 3.9 to 3.14, on 64-bit machines), and
// what the module tracemalloc has in them: a trace of each block that Python has allocated since tracemalloc.start().
#pragma once

#include "target/target.h"

// What a table begins with.
struct as_py_hashtable {
    uint64_t entries;
    uint64_t buckets;      // a power of two
    uint64_t first;        // address of the array of buckets: each is the address of its first entry, or 0
    uint64_t functions[3]; // to get an entry, to hash and to compare keys
    uint64_t destroy[2];   // for keys and values; 0: nothing is done
    uint64_t malloc, free;
};

struct as_py_hashtable_entry {
    uint64_t next, hash, key, value;
};

// trace_t, the value of an entry whose key is the address of a block.
struct as_py_trace {
    uint64_t size, traceback;
};

enum { AS_PY_BUCKET = sizeof(uint64_t) };

// Are the numbers as CPython keeps them? They are the table's first two words.
bool as_py_has_buckets(const struct as_py_hashtable *table);

// May the words be a table? Its functions are code, too. The entries are the caller's to prove.
bool as_py_is_hashtable(const struct as_target *t, const struct as_py_hashtable *table);

// Is it a table of traces, by its functions and its first entry? False also for one without entries. Each read, of up to 4 KiB, takes
// one of *reads_left; where none is left, the answer is false.
bool as_py_has_traces(struct as_target *t, const struct as_py_hashtable *table, int64_t *reads_left);

// Bytes of glibc's chunks for a table of traces, at least: its buckets, and for each block an entry and a trace.
uint64_t as_py_trace_bytes(const struct as_py_hashtable *table);
