// SPDX-License-Identifier: MIT
// Amounts as people write them: a number, which may have a fraction, and its unit behind it ("64M", "0.5s").
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A table of units has no pointers: in the agent each would be a relocation, and a word that the loader writes.
struct as_unit {
    char name[8];
    uint64_t factor; // 0: the end
};
// Bytes: a number alone, K, M, G, T.
extern const struct as_unit as_size_units[];

// Reads `length` bytes, of which all must be the amount. False: it is none, or too large.
bool as_amount_read(const char *text, size_t length, const struct as_unit *units, uint64_t *value);
