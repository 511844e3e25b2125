// SPDX-License-Identifier: MIT
// How many chunks of each size there are, and which of them are pins.
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/records.h"

enum { AS_SIZES_DIRECT = 4096 }; // sizes below 64 KiB have a place each; larger ones are hashed

// Chunks of one size.
struct as_size_count {
    struct as_size_record record;
    uint64_t places, shared_stranded; // as in struct as_sharer_record
};

struct as_sizes {
    struct as_size_count *direct;
    AS_VEC(struct as_size_count) large; // open addressing; the count is that of the slots in use
    size_t slots;                       // a power of two
    bool used;                          // a size has been asked for
};

bool as_sizes_open(struct as_sizes *s, struct as_error *err);
void as_sizes_close(struct as_sizes *s);

// Adds every count of `from`, whose counts are not to be read any more. False when memory ran out.
bool as_sizes_add(struct as_sizes *to, struct as_sizes *from);

// The record for a size, made if need be; NULL when memory ran out. Valid until the next call with a new large size.
struct as_size_count *as_sizes_large(struct as_sizes *s, uint64_t size);
static inline struct as_size_count *as_sizes_at(struct as_sizes *s, uint64_t size)
{
    s->used = true;
    return size / AS_UNIT < AS_SIZES_DIRECT ? &s->direct[size / AS_UNIT] : as_sizes_large(s, size);
}
