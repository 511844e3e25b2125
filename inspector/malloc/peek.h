// SPDX-License-Identifier: MIT
// Small reads at scattered places, as the lists of free chunks ask for: a page cache in front of the target.
#pragma once

#include "base/error.h"
#include "target/target.h"

enum { AS_PEEK_PAGE = 4096, AS_PEEK_SLOTS = 4096 }; // 16 MiB, of which only what is used becomes resident

struct as_peek {
    struct as_target *target;
    uint64_t *tags; // address of the page in each slot, plus one; 0: empty
    uint8_t *pages;
};

bool as_peek_open(struct as_peek *p, struct as_target *t, struct as_error *err);
void as_peek_close(struct as_peek *p);

// Copies `length` bytes (not across a page of AS_PEEK_PAGE, or it is read directly); false when they cannot be read.
bool as_peek(struct as_peek *p, uint64_t address, void *out, size_t length);
