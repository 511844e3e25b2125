// SPDX-License-Identifier: MIT
// Counting chunks onto the pages that they touch. Internal to ledger/.
#pragma once

#include "base/error.h"
#include "ledger/builder.h"
#include "malloc/chunk.h"

// The sink of a ledger: counts a batch. False when our memory ran out, or a chunk record could not be written.
bool as_ledger_chunks(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t n);

// Adds an item to b->collected. False when our memory ran out.
bool as_ledger_collect(struct as_ledger_builder *b, uint64_t tagged);

// Counts a resident page on which no chunk is in use among those with stranded bytes, if it has such.
void as_ledger_count_unheld(struct as_ledger_builder *b, const struct as_page_record *page);

// No more chunks of this heap will come. False when our memory ran out.
bool as_ledger_chunks_end(struct as_ledger_builder *b, uint64_t end);

// Writes chunk records (model/records.h, section "chunks") to a file during the walk: there may be far more of them than
// we may hold in memory.
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
