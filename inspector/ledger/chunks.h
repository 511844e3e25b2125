// SPDX-License-Identifier: MIT
// Counting chunks onto the pages that they touch. Internal to ledger/.
#pragma once

#include "ledger/builder.h"

// The sink of a ledger: counts a batch. False when our memory ran out, or a chunk record could not be written.
bool as_ledger_chunks(struct as_chunk_sink *sink, const struct as_chunk *batch, size_t n);

// Adds an item to b->collected. False when our memory ran out.
bool as_ledger_collect(struct as_ledger_builder *b, uint64_t tagged);

// Counts a resident page on which no chunk is in use among those with stranded bytes, if it has such.
void as_ledger_count_unheld(struct as_ledger_builder *b, const struct as_page_record *page);

// No more chunks of this heap will come. False when our memory ran out.
bool as_ledger_chunks_end(struct as_ledger_builder *b, uint64_t end);
