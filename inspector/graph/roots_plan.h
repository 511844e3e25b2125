// SPDX-License-Identifier: MIT
// Before roots are searched: whose each mapping is, what of it is left out, and where stacks begin.
#pragma once

#include "graph/graph_objects.h"
#include "libc/libc.h"
#include "libc/target_modules.h"
#include "model/store.h"
#include "target/target.h"

struct as_roots_plan {
    struct as_target *target;
    const struct as_modules *modules;
    AS_VEC(struct as_range) kept_out; // by address, disjoint
    AS_VEC(uint32_t) module_of;       // of each mapping; UINT32_MAX: none
    AS_VEC(bool) runtime;             // of each mapping: a runtime has a part of its heap there
    AS_VEC(uint64_t) stack_pointers;  // ascending
    AS_VEC(uint32_t) stack_threads;   // parallel: whose they are
    uint64_t tls_bytes;               // of each thread, at most
};

// `modules`: stays where it is. `objects`: their memory is left out. Free the plan in either case. False: AS_NO_MEMORY.
bool as_roots_plan_make(struct as_roots_plan *p, struct as_target *t, const struct as_modules *modules,
                        const struct as_objects *objects, const struct as_malloc *m, const struct as_store *s,
                        struct as_error *err);
void as_roots_plan_free(struct as_roots_plan *p);
// Where a module's .bss ends: what lies behind it may be anybody's, even in the same mapping.
uint64_t as_roots_end_of_module(const struct as_roots_plan *p, uint32_t module);
