// SPDX-License-Identifier: MIT
// Small reads at scattered places, as the lists of free chunks ask for: a page cache in front of the target.
#pragma once

#include "base/error.h"
#include "target/target.h"

struct as_page_cache {
    struct as_target *target;
    uint64_t *tags; // address of the page in each slot, plus one; 0: empty
    uint8_t *pages;
};

bool as_page_cache_open(struct as_page_cache *p, struct as_target *t, struct as_error *err);
void as_page_cache_close(struct as_page_cache *p);

// Copies `length` bytes (through the cache where they lie in one page); false when they cannot be read.
bool as_page_cache_read(struct as_page_cache *p, uint64_t address, void *out, size_t length);
