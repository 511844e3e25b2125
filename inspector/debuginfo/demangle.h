// SPDX-License-Identifier: MIT
// Names as people read them: of C++ as their programmers wrote them.
#pragma once

#include <stdbool.h>
#include <stddef.h>

// Whether this build can demangle.
extern const bool as_demangle;

// A symbol ("_ZN3app5cacheE") or the name of a type ("N3app5CacheE"; `type`), demangled: "app::cache". As it is, where it is no
// mangled name, or cannot be demangled. Returns `out`.
const char *as_name_demangled(const char *name, bool type, char *out, size_t size);
