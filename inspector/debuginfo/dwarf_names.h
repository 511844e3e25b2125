// SPDX-License-Identifier: MIT
// The names of types, as a programmer writes them.
#pragma once

#include "debuginfo/dwarf_types.h"

// The name of a type ("app::Session*"); NULL: it has none. Cut at `size` bytes. Unsafe for a terminal: it is a target's.
const char *as_dwarf_type_name(const struct as_dwarf_types *t, uint32_t type, char *text, size_t size);
