// SPDX-License-Identifier: MIT
// The containers of LLVM (DenseMap, StringMap) and the slabs of its allocator (BumpPtrAllocator): in clang, rustc, Mesa and others.
//
// A DenseMap marks the places of its table that are free; their number follows from the two counts beside the pointer to the table.
// Only where some chunk begins with such a mark, the words beside pointers are read for it.
#pragma once

#include "graph/recogniser.h"

// Finds them, and gives the chunks a shape.
bool as_llvm_find(const struct as_recogniser_input *in);
