// SPDX-License-Identifier: MIT
// A map from 64-bit keys to numbers, in memory of our own.
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// All zero is an empty map.
struct as_number_map {
    struct as_number_slot {
        uint64_t key; // 0: the slot is free
        uint32_t value;
    } * slots;
    size_t capacity, count; // capacity: a power of two
};

// The value of a key, which is not 0; 0: the map does not have it.
uint32_t as_number_map_get(const struct as_number_map *m, uint64_t key);
// Sets it. False: AS_NO_MEMORY, and nothing is changed.
bool as_number_map_put(struct as_number_map *m, uint64_t key, uint32_t value, struct as_error *err);
void as_number_map_free(struct as_number_map *m);
