// SPDX-License-Identifier: MIT
// Chunks of Ruby's own that lead to thousands of objects, and hold none of them: the descriptors of its pages, the collector's stack of
// objects to mark, which it keeps for the next time, the table of equal strings, the list of
// objects whose memory left the transient heap. Internal to runtimes/.
#pragma once

#include "model/store.h"
#include "runtimes/visitor.h"
#include "target/target.h"

// Tells of those among `chunks` (addresses in order, each of AS_RUBY_WEAK_CHUNK bytes or more). `promoted`:
// as_ruby_find_promoted's, which is told of, too. `first_type`: their types' first number. False: the visitor's.
bool as_ruby_visit_weak(struct as_target *t, const struct as_store *store, const uint64_t *chunks, size_t count,
                        uint64_t promoted, uint32_t first_type, const struct as_object_visitor *visitor);
// Tells of their types.
bool as_ruby_visit_weak_types(const struct as_object_visitor *visitor);
