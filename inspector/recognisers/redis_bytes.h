// SPDX-License-Identifier: MIT
// What is common to what is asked of the chunks of redis'.
#pragma once

#include "base/align.h"
#include "recognisers/redis.h"

#include <string.h>

enum {
    AS_REDIS_REFERENCES = 4096, // to an object, at most
    AS_REDIS_EMBEDDED = 8,      // an encoding
    AS_REDIS_TYPE = 6,          // the last
    AS_REDIS_ENCODING = 12,     // the last
    AS_SDS_KINDS = 5,
};

// The bytes of a string's header.
static inline unsigned as_sds_header(unsigned kind)
{
    return kind == 0 ? 1 : (2U << (kind - 1)) + 1;
}

// Has malloc given that many bytes for a request? It rounds up, and leaves what is too little for another chunk with it.
static inline bool as_redis_made_for(uint64_t usable, uint64_t request)
{
    uint64_t least = as_align_up(request + sizeof(uint64_t), AS_ALIGNMENT), size = usable + sizeof(uint64_t);
    least = least < AS_MIN_CHUNK ? AS_MIN_CHUNK : least;
    uint64_t most = size % AS_SMALLEST_PAGE == 0 ? AS_SMALLEST_PAGE : AS_ALIGNMENT; // with a mapping of its own
    return size >= least && size - least <= most;
}

static inline bool as_redis_zero(struct as_target *t, uint64_t address, const uint8_t *bytes, uint64_t count,
                                 uint64_t at)
{
    uint8_t byte;
    if (at < count)
        return bytes[at] == 0;
    return as_target_read(t, address + at, &byte, 1) && byte == 0;
}

static inline uint64_t as_redis_number(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, bytes, size); // both architectures are little-endian
    return value;
}
