// SPDX-License-Identifier: MIT
// Numbers for keys: 0 for the first that is met, 1 for the second, and so on.
#pragma once

#include "base/vec.h"

#include <stdint.h>

#define AS_NO_KEY UINT32_MAX

struct as_keys {
    AS_VEC(uint64_t) list; // by number
    uint32_t *slots;       // by hash: a number and 1; 0: free
    size_t size;           // of slots, a power of two
    uint32_t most;
};

// For at most `most` keys. False: AS_NO_MEMORY. Close it in either case.
bool as_keys_open(struct as_keys *k, uint32_t most, struct as_error *err);
void as_keys_close(struct as_keys *k);
// The number of a key, which gets one if it has none. AS_NO_KEY: there are too many, or no memory.
uint32_t as_key_add(struct as_keys *k, uint64_t key);
// The number of a key; AS_NO_KEY: it has none.
uint32_t as_key_find(const struct as_keys *k, uint64_t key);
