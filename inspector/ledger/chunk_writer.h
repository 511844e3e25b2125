// SPDX-License-Identifier: MIT
// Writes chunk records (model/records.h, section "chunks") to a file during the walk: there may be far more of them than
// we may hold in memory.
#pragma once

#include "base/error.h"
#include "malloc/chunk.h"

enum { AS_CHUNK_BUFFER = 16384 };

struct as_chunk_writer {
    int fd;
    uint64_t start;  // in the file, of the first record
    uint64_t offset; // in the file, of the next flush
    uint64_t count;  // records so far
    size_t pending;
    uint32_t buffer[AS_CHUNK_BUFFER];
};

// Both false with AS_IO when the file cannot take it.
bool as_chunk_write(struct as_chunk_writer *w, struct as_chunk chunk, struct as_error *err);
bool as_chunk_flush(struct as_chunk_writer *w, struct as_error *err);
