// SPDX-License-Identifier: MIT
// The return addresses of a stack, by the tables of the modules. No malloc, no lock, no TLS, no system call: for hooks of malloc and
// signal handlers. Reads nothing but the stacks that it is given.
#pragma once

#include "unwind/stack.h"

// Writes the return addresses above the frame `start` (whose own pc is not among them), innermost first, at most `max`, and returns
// how many. slots[i] is the address of the stack's word where pcs[i] was found, 0 where a register had it; in a pointer-authenticating
// program that word has sign bits which pcs[i] has not. slots may be NULL, and cache too. `complete` says whether the outermost
// frame was reached; if not, what stands there is right, and more frames are above.
size_t as_unwind_stack(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                       const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache, uintptr_t *pcs,
                       uintptr_t *slots, size_t max, bool *complete);

// As as_unwind_stack(). last: NULL, or of this thread alone; then `max` is at most AS_UNWIND_MOST.
size_t as_unwind_frames(const struct as_unwind_modules *modules, const struct as_unwind_registers *start,
                        const struct as_unwind_stacks *stacks, struct as_unwind_cache *cache,
                        struct as_unwind_last *last, uintptr_t *pcs, const struct as_unwind_places *places, size_t max,
                        bool *complete);

// The rule (rule.h) by which the frame that goes on at `pc`, behind a call, is undone. cache may be NULL.
uint64_t as_unwind_rule_behind(const struct as_unwind_modules *modules, struct as_unwind_cache *cache, uintptr_t pc);
