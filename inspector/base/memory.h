// SPDX-License-Identifier: MIT
// Memory from the kernel, never from malloc: see vec.h.
#pragma once

#include "base/error.h"

#include <stddef.h>

// Private anonymous memory, all zeros; what is never touched takes no page. NULL and AS_NO_MEMORY, "no memory for `what`", when
// there is none.
void *as_memory_map(size_t bytes, const char *what, struct as_error *err);

// Likewise, for memory that will be filled.
void *as_memory_map_large(size_t bytes, const char *what, struct as_error *err);

// Gives it back; NULL is allowed.
void as_memory_unmap(void *memory, size_t bytes);

// For memory that will be filled: large pages save most of the page faults, where the kernel has them.
void as_memory_prefer_large_pages(void *memory, size_t bytes);
