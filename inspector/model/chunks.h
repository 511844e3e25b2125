// SPDX-License-Identifier: MIT
// Walks the chunk records of one heap of a view.
#pragma once

#include "model/view.h"

#include <stdbool.h>

struct as_chunk_cursor {
    const uint32_t *next, *end;
    uint64_t address, limit;
    bool torn; // the records do not cover the heap: more or less than its bytes
};

struct as_chunk_entry {
    uint64_t address, size; // bytes, header included
    enum as_chunk_class kind;
};

static inline struct as_chunk_cursor as_chunks_of(const struct as_view *v, const struct as_heap_record *heap)
{
    const uint32_t *first = v->chunks ? v->chunks + heap->first_chunk : NULL;
    return (struct as_chunk_cursor){first, first ? first + heap->chunk_count : NULL, heap->start, heap->end, false};
}

// The next chunk; false after the last. Never one that lies outside the heap, whatever the records say.
static inline bool as_chunk_next(struct as_chunk_cursor *c, struct as_chunk_entry *chunk)
{
    if (c->next == c->end) {
        c->torn |= c->address != c->limit;
        return false;
    }
    uint64_t units = 0;
    uint32_t record;
    do {
        record = *c->next++;
        units += record & ((1u << AS_CHUNK_SIZE_BITS) - 1);
    } while ((record & AS_CHUNK_MORE) && c->next < c->end);
    chunk->address = c->address;
    chunk->size = units * AS_UNIT; // at most 2^28 x 16 bytes per record of a file: no overflow
    chunk->kind = record >> AS_CHUNK_CLASS_SHIFT <= AS_CHUNK_METADATA
                      ? (enum as_chunk_class)(record >> AS_CHUNK_CLASS_SHIFT)
                      : AS_CHUNK_UNKNOWN;
    if (units == 0 || chunk->size > c->limit - c->address) {
        c->torn = true;
        c->next = c->end;
        c->limit = c->address;
        return false;
    }
    c->address += chunk->size;
    return true;
}
