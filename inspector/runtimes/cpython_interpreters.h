// SPDX-License-Identifier: MIT
// The interpreters of a CPython process (subinterpreters have arenas of their own from 3.12 on). Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "target/target.h"

// What _PyRuntime begins with from 3.13 on: "xdebugpy".
#define AS_PY_RUNTIME_COOKIE UINT64_C(0x7970677562656478)

typedef AS_VEC(uint64_t) as_py_pointer_vec;

// Does the _PyRuntime at `runtime` say that CPython was built without the GIL? Then its objects lie in mimalloc's memory.
bool as_py_is_free_threaded(struct as_target *t, uint64_t runtime);

// Could an array of arenas have so many elements? It has 16 at first, and doubles.
static inline bool as_py_is_array_length(uint32_t count)
{
    return count >= 16 && (count & (count - 1)) == 0;
}

// Adds to *tables what stands at these places, if it may be the address of an array of arenas: behind it stands how many elements that
// has (struct _obmalloc_mgmt). False (AS_NO_MEMORY): our memory ran out.
bool as_py_tables_add(struct as_target *t, const uint64_t *places, size_t count, as_py_pointer_vec *tables,
                      struct as_error *err);

// Goes through the interpreters of the _PyRuntime at `runtime`, and adds to *tables what may be the address of an interpreter's array of
// arenas: it is to be proven. *reads_left is lowered by the pointers that were followed, and may become negative: then something is
// missing. *whole: the list of interpreters came to its end. False (AS_NO_MEMORY): our memory ran out.
bool as_py_interpreters_find(struct as_target *t, uint64_t runtime, as_py_pointer_vec *tables, int64_t *reads_left,
                             bool *whole, struct as_error *err);

// As above for 3.12, which publishes nothing: by the list of interpreters in the variables [start, end), where the first
// interpreter's `table` has been found.
bool as_py_interpreters_listed(struct as_target *t, uint64_t start, uint64_t end, uint64_t table,
                               as_py_pointer_vec *tables, int64_t *reads_left, struct as_error *err);
