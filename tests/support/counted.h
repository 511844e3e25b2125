// SPDX-License-Identifier: MIT
// A mock counted to the end: found, walked, and held against what its kernel says of each page.
#pragma once

#include "ledger/ledger.h"
#include "support/found.h"

struct counted {
    struct found *f;
    struct as_store store;
};

// `brk_end`: where brk stands, as far as the ledger is told. `all_found`: as as_ledger_finish has it.
struct counted *counted_all(struct mock *m, uint64_t brk_end, bool all_found);
void counted_free(struct counted *c);

const struct as_ledger *counted_arena(const struct counted *c, size_t arena);
const struct as_ledger *counted_process(const struct counted *c);
// The record of the page that holds this address, in a heap or in an mmapped chunk.
const struct as_page_record *counted_page(const struct counted *c, uint64_t address);
// The record of a chunk size; all zeros when there is no such chunk.
struct as_size_record counted_size(const struct counted *c, uint64_t size);
size_t counted_warnings(const struct counted *c, enum as_warning_code code);
