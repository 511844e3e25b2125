// SPDX-License-Identifier: MIT
// Reading bytes that are not trusted: behind the end everything is 0 and `bad` stays set.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct as_bytes {
    const uint8_t *at;
    const uint8_t *end;
    bool bad;
};

static inline size_t as_bytes_left(const struct as_bytes *b)
{
    return (size_t)(b->end - b->at);
}

static inline const uint8_t *as_bytes_take(struct as_bytes *b, uint64_t size)
{
    const uint8_t *at = b->at;
    if (size > as_bytes_left(b)) {
        b->bad = true;
        b->at = b->end;
        return NULL;
    }
    b->at += size;
    return at;
}

static inline uint64_t as_bytes_number(struct as_bytes *b, size_t size)
{
    uint64_t value = 0;
    const uint8_t *at = as_bytes_take(b, size);
    if (at)
        memcpy(&value, at, size); // both architectures are little-endian
    return value;
}

static inline int64_t as_bytes_signed(struct as_bytes *b, size_t size)
{
    unsigned unused = 64 - 8 * (unsigned)size;
    return (int64_t)(as_bytes_number(b, size) << unused) >> unused;
}

// LEB128; bits above the 64th are dropped.
static inline uint64_t as_bytes_leb(struct as_bytes *b, bool is_signed)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0;
    do {
        byte = (uint8_t)as_bytes_number(b, 1);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        shift += 7;
    } while (byte & 0x80);
    if (is_signed && shift < 64 && (byte & 0x40))
        value |= UINT64_MAX << shift;
    return value;
}

static inline uint64_t as_bytes_uleb(struct as_bytes *b)
{
    return as_bytes_leb(b, false);
}

static inline int64_t as_bytes_sleb(struct as_bytes *b)
{
    return (int64_t)as_bytes_leb(b, true);
}
