// SPDX-License-Identifier: MIT
// Small reads at scattered places, as the lists of free chunks ask for: a page cache in front of the target.
#pragma once

#include "base/error.h"
#include "target/target.h"

enum { AS_PAGE_CACHE_PAGE = 4096, AS_PAGE_CACHE_SLOTS = 4096 }; // 16 MiB, of which only what is used becomes resident

struct as_page_cache {
    struct as_target *target;
    uint64_t *tags; // address of the page in each slot, plus one; 0: empty
    uint8_t *pages;
};

bool as_page_cache_open(struct as_page_cache *p, struct as_target *t, struct as_error *err);
void as_page_cache_close(struct as_page_cache *p);

// Copies `length` bytes (not across a page of AS_PAGE_CACHE_PAGE, or it is read directly); false when they cannot be read.
bool as_page_cache_read(struct as_page_cache *p, uint64_t address, void *out, size_t length);
