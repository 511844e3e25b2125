// SPDX-License-Identifier: MIT
// Ranges of addresses that a runtime has, collected in any order. Internal to runtimes/.
#pragma once

#include "base/vec.h"
#include "model/store.h"
#include "target/target.h"

// All zero is empty; to be freed.
struct as_ranges {
    AS_VEC(uint64_t) starts; // in no order; and as many ends
    AS_VEC(uint64_t) ends;
};

// Adds `length` bytes at `start`. False (AS_NO_MEMORY): our memory ran out.
bool as_ranges_add(struct as_ranges *r, uint64_t start, uint64_t length, struct as_error *err);

// Makes regions of the ranges, sorted, one of all that follow without a gap, and adds their bytes to *bytes. Of ranges that overlap there
// is one region, if `unite`; otherwise there are regions that overlap, and as_regions_check believes none of them. False
// (AS_NO_MEMORY): our memory ran out.
bool as_ranges_settle(struct as_ranges *r, struct as_target *t, struct as_store *s, uint32_t runtime, bool unite,
                      uint64_t *bytes, struct as_error *err);

void as_ranges_clear(struct as_ranges *r);
void as_ranges_free(struct as_ranges *r);
