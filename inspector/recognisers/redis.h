// SPDX-License-Identifier: MIT
// The structures of redis: dicts with their tables and entries (redis_dicts.h), strings (sds), objects, listpacks,
// intsets. Of 7.0 to 8.6; and valkey's hash tables (valkey.h), of 8.1 and later.
//
// All hangs on a dict whose type is in a module's data. Only where there is such a dict, all chunks are read once more: no other program
// pays for it.
#pragma once

#include "graph/recogniser.h"

// Finds them, and gives the chunks a shape. A dict's type is no vtable then.
bool as_redis_find(const struct as_recogniser_input *in);

enum {
    AS_SDS_SHORT = 1 << 0,    // may be a string of up to 31 bytes, whose header is a byte: almost any small chunk may
    AS_SDS_LONG = 1 << 1,     // a string with length, room and kind before the text
    AS_REDIS_OBJECT = 1 << 2, // may be an object: type, encoding, reference count, and where its contents are
    AS_REDIS_TEXT = 1 << 3,   // an object with its string behind it, to which it leads
    AS_REDIS_LISTPACK = 1 << 4,
    AS_REDIS_INTSET = 1 << 5,
    AS_REDIS_SHARED = 1 << 6,  // an object that is never freed
    AS_VALKEY_OBJECT = 1 << 8, // an object of valkey's, with its key behind it (8.0 and later)
    // The next three exist in redis 8.2 and later.
    AS_REDIS_KEYED = 1 << 9,  // an object with its key, and perhaps its value
    AS_REDIS_FIELD = 1 << 10, // of a hash, with its value or a pointer to it
    AS_REDIS_NODE = 1 << 11,  // of a sorted set
    // The next ones describe an object, with or without a key.
    AS_REDIS_RAW = 1 << 12,     // it leads to a string of its own
    AS_REDIS_NUMBERS = 1 << 13, // to an intset
    AS_REDIS_BEFORE = 14,       // shift: so many words are before one that does either
    AS_REDIS_MOST_BEFORE = 3,
};

// What a chunk may be, whose memory begins at `address` and has `usable` bytes, by its first `count` bytes. `modern`: in redis 8.2 or
// later.
unsigned as_redis_match(struct as_target *t, uint64_t address, uint64_t usable, const uint8_t *bytes, uint64_t count,
                        bool modern);
// What only redis 8.2 and later has.
unsigned as_redis_keyed_match(struct as_target *t, uint64_t address, uint64_t usable, const uint8_t *bytes,
                              uint64_t count);
