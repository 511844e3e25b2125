// SPDX-License-Identifier: MIT
// Mappings that can hold malloc's memory: brk and mmap give it private and anonymous.
#pragma once

#include "target/target.h"

// NULL is none.
static inline bool as_is_private_anonymous(const struct as_mapping *m)
{
    return m && m->kind == AS_MAP_ANON && !(m->prot & AS_PROT_SHARED);
}

// As malloc got it. (A program may protect pages of its own blocks later.)
static inline bool as_is_writable_anonymous(const struct as_mapping *m)
{
    return as_is_private_anonymous(m) && (m->prot & AS_PROT_WRITE);
}
