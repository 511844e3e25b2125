// SPDX-License-Identifier: MIT
// What lies on each of the kernel's pages of a runtime's heap, for the map of a report. Internal to runtimes/.
#pragma once

#include "base/error.h"
#include "model/store.h"
#include "target/target.h"

// A piece of a runtime's heap (an arena of CPython's, a page of Ruby's) whose pages are being counted.
struct as_runtime_piece {
    struct as_runtime_page_record *pages;
    uint64_t base; // address of the first of them
    uint32_t page_size;
};

// Adds a record, with nothing on it, for each page that [address, address + size) touches. The piece is valid until the next
// call. False (AS_NO_MEMORY): our memory ran out.
bool as_runtime_pages_add(as_runtime_page_vec *pages, uint32_t kind, uint64_t address, uint64_t size,
                          uint32_t page_size, struct as_runtime_piece *piece, struct as_error *err);

// Counts `in_use` bytes of [from, to) as in use, and the rest as free; all are multiples of AS_RUNTIME_UNIT. Where some are in use and
// some are free, each page gets a part of both by its part of the range, and says so (AS_RUNTIME_PAGE_MEAN). `block_size`: of the
// blocks there; 0: of none.
void as_runtime_piece_count(const struct as_runtime_piece *piece, uint64_t from, uint64_t to, uint64_t in_use,
                            uint32_t block_size);

// Takes note that the bytes [from, to), which were counted as in use, are free.
void as_runtime_piece_free(const struct as_runtime_piece *piece, uint64_t from, uint64_t to);
