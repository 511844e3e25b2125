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

// Goes through the interpreters of the _PyRuntime at `runtime`, and adds to *tables what may be the address of an interpreter's array of
// arenas: it is to be proven. *looks is lowered by the pointers that were followed, and may become negative: then something is
// missing. *whole: the list of interpreters came to its end. False (AS_NO_MEMORY): our memory ran out.
bool as_py_interpreters_find(struct as_target *t, uint64_t runtime, as_py_pointer_vec *tables, int64_t *looks,
                             bool *whole, struct as_error *err);
