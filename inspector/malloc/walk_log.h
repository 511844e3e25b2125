// SPDX-License-Identifier: MIT
// The walk's chunks, written down in a byte or two each, so that they can be counted later or by another thread: which
// of them sit in a fastbin is known only when the whole arena has been read (fastbins.h).
#pragma once

#include "malloc/heaps.h"

enum { AS_WALK_LOG_BYTES = 64 * 1024 - 256 };

// A part of one heap's chunks. The first and the last of a heap's blocks say so.
struct as_walk_log_block {
    struct as_walk_log_block *next;
    struct as_heap heap; // as it was when the walk began
    uint64_t start;      // address of the first chunk in here
    uint64_t end;        // of the heap, as the walk found it; valid in the last block
    bool first, last;
    size_t length;
    uint8_t bytes[AS_WALK_LOG_BYTES];
};

struct as_walk_log_block *as_walk_log_block_new(struct as_error *err);
void as_walk_log_block_free(struct as_walk_log_block *block);

// Writes chunks into blocks; each one that is full goes to `full`, which takes it over.
struct as_walk_log_writer {
    struct as_chunk_sink sink; // the walk's chunks come in here
    struct as_walk_log_block *block;
    uint64_t at; // address of the next chunk
    bool (*full)(void *context, struct as_walk_log_block *block);
    void *context;
    struct as_walk_log_block **spare; // blocks to be used again, first; may be NULL
    struct as_error *err;
};

bool as_walk_log_begin(struct as_walk_log_writer *w, const struct as_heap *heap);
bool as_walk_log_end(struct as_walk_log_writer *w, uint64_t heap_end);

// Reads a block's chunks in order: calls `sink` with batches. Chunks in use at the addresses in [*fastbin, fastbin_end)
// (ascending) are handed on as AS_CHUNK_FASTBIN, and *fastbin moves on.
bool as_walk_log_replay(const struct as_walk_log_block *block, struct as_chunk_sink *sink, const uint64_t **fastbin,
                        const uint64_t *fastbin_end);
