// SPDX-License-Identifier: MIT
// The roots of the graph: words outside of malloc's heaps that lead to a chunk in use.
#pragma once

#include "graph/graph_objects.h"
#include "graph/patterns.h"
#include "libc/libc.h"
#include "libc/target_modules.h"
#include "model/store.h"
#include "target/target.h"

// In the order in which they explain a chunk: the first that leads to it is named as its owner.
enum as_root_kind {
    AS_ROOT_GLOBAL,    // a module's .data, .bss, and what is read-only after relocation
    AS_ROOT_THREAD,    // a thread's own variables (TLS) and its descriptor
    AS_ROOT_RUNTIME,   // the heap of a language's runtime
    AS_ROOT_MEMORY,    // other anonymous memory
    AS_ROOT_SHARED,    // shared memory
    AS_ROOT_REGISTER,  // a thread's registers
    AS_ROOT_STACK,     // a thread's stack, from its stack pointer on
    AS_ROOT_FRAMES,    // a stack of an interpreter's frames
    AS_ROOT_UNREACHED, // no memory: a runtime's objects that nothing leads to, as garbage that has not been collected is
    AS_ROOT_KINDS
};

// A word of a stack or a register may be a leftover, of which nobody knows any more, and so may an object. These own only what nothing
// else leads to.
static inline bool as_root_is_weak(enum as_root_kind kind)
{
    return kind >= AS_ROOT_REGISTER;
}

// "variable", "stack" and so on.
const char *as_root_kind_name(enum as_root_kind kind);

// A range of memory that was searched.
struct as_root_source {
    enum as_root_kind kind;
    uint64_t start, end; // 0 for registers, and for what is no memory
    uint32_t mapping;    // index in the target's mappings; likewise UINT32_MAX
    uint32_t thread;     // index in the target's threads; UINT32_MAX: none
    uint32_t module;     // index in *as_roots.modules; UINT32_MAX: none
};

enum { AS_MOST_SOURCES = (1 << 30) - 1 };
struct as_root {
    uint64_t address; // of the word; 0: a register, or none
    uint32_t node;
    uint32_t source : 30; // index
    uint32_t begins : 1;  // the word leads to what malloc returned, not into the middle
    uint32_t united : 1;  // it is one of those that are one owner (interpreter_roots.h)
};

struct as_roots {
    const struct as_modules *modules;
    AS_VEC(struct as_root_source) sources;
    AS_VEC(struct as_root) list; // those of a source lie together
    uint64_t unsearched;         // bytes: too much shared memory to be searched while a clone is inspected
    bool running; // some were read of a target that runs on: of memory that a clone shares with it, or does not inherit
};

// Before roots are searched: whose each mapping is, what of it is left out, and where stacks begin.
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

// Searches everything that may hold a pointer to a chunk. `patterns`: takes each with what is beside it. `objects`: whose they are. Free
// the roots in either case. False: AS_NO_MEMORY.
bool as_roots_find(struct as_roots *r, const struct as_index *x, struct as_patterns *patterns,
                   const struct as_objects *objects, const struct as_roots_plan *plan, struct as_error *err);
void as_roots_free(struct as_roots *r);
