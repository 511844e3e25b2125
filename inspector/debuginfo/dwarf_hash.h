// SPDX-License-Identifier: MIT
// Hashes of names (FNV-1a).
#pragma once

#include "debuginfo/dwarf_index.h"

static const uint64_t AS_FIRST_HASH = UINT64_C(0xcbf29ce484222325), AS_HASH_PRIME = UINT64_C(0x100000001b3);

// A hash, continued with a text.
uint64_t as_dwarf_hash_text(uint64_t hash, const char *text);
// The hash of a name, continued from what it lies in (0: nothing).
uint64_t as_dwarf_hash(uint64_t parent, const char *name);
// The hash of a scope with all that it lies in; 0: a part has no name.
uint64_t as_dwarf_qualified_hash(const struct as_dwarf_index *x, uint32_t scope);
