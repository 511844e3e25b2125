// SPDX-License-Identifier: MIT
// Ruby's transient heap (2.6 to 3.2): memory of young Arrays, Hashes, Structs and objects, in an arena of 32 MiB. Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "runtimes/visitor.h"
#include "target/target.h"

// A word of an object that leads into the arena.
struct as_ruby_transient {
    uint64_t address, object;
    uint32_t type; // the object's type's number
    uint32_t size; // bytes, once its header has been read
};
typedef AS_VEC(struct as_ruby_transient) as_ruby_transient_vec;

// Finds the arena; start and end are 0 if there is none. False: AS_NO_MEMORY.
bool as_ruby_find_arena(struct as_target *t, struct as_range *arena, struct as_error *err);

// Tells of the memory to which `found` leads, where its header says so; `found` is sorted. False: the visitor's.
bool as_ruby_visit_transient(struct as_target *t, const struct as_range *arena, as_ruby_transient_vec *found,
                             const struct as_object_visitor *visitor);

// The list of objects whose memory had to leave the arena: what malloc returned for it; 0: not known. Objects on it may be long gone.
uint64_t as_ruby_find_promoted(struct as_target *t, uint64_t interpreter, const struct as_range *arena);
