// SPDX-License-Identifier: MIT
// The containers of LLVM (DenseMap, StringMap) and the slabs of its allocator (BumpPtrAllocator): in clang, rustc, Mesa and others.
//
// A DenseMap marks the places of its table that are free; their number follows from the two counts beside the pointer to the table.
// Only where some chunk begins with such a mark, the words beside pointers are read for it.
#pragma once

#include "graph/edges.h"
#include "graph/patterns.h"

// Finds them, and gives the chunks a shape. To be called once the edges are settled, while the target stands still. What there is no memory
// for has no shape.
void as_llvm_prove(struct as_patterns *patterns, const struct as_edges *e, struct as_target *t);
